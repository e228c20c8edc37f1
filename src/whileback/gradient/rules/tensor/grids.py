"""Gradients of grids, and of samples at their points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.definition import by_definition
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.sampling import (
    Taps,
    cubic,
    inside,
    linear,
    nearest,
    pixels,
    weighted,
)
from whileback.gradient.rules.tensor.places import pad_along
from whileback.graph.builder import Builder
from whileback.graph.shapes import describe

_MODES: dict[str, Callable[[Builder, ir.Value], Taps]] = {
    "nearest": nearest,
    "linear": linear,
    "cubic": cubic,
}


@rule("GridSample")
def grid_sample(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Sequence[ir.Value | None]:
    """Y[o] = Σ w(k - x[o])·X[k] over the pixels k around a point x[o] of the grid.

    So dX adds up w·dY, and d grid = Σ ∂w·X·dY. At a pixel the slope of linear samples is that to
    the right; it is 0 where the grid points at a border that repeats or reflects. Of the nearest
    pixel the grid has no gradient.
    """
    return by_definition(op, node, dY, _samples)


def _samples(op: GradientBuilder, node: ir.Node, X: ir.Value, grid: ir.Value) -> ir.Value:
    axes = _count_axes(node)
    images, points = op.widened(X), op.widened(grid)
    columns = op.emit("Split", [points], {"axis": -1, "num_outputs": axes}, outputs=axes)
    taps = [
        _taps(op, node, op.Squeeze(column, [-1]), op.dim(X, 2 + axis))
        for axis, column in enumerate(reversed(columns))
    ]
    batch = op.Reshape(op.arange(op.dim(X, 0)), [-1, *[1] * axes])
    samples = weighted(op, pixels(op, images, batch, [each.places for each in taps]), taps)
    return op.cast(op.Transpose(samples, perm=[0, axes + 1, *range(1, axes + 1)]), X)


def _count_axes(node: ir.Node) -> int:
    """Return how many spatial axes the images have."""
    for value in (*node.inputs, node.outputs[0]):
        if value is not None and value.shape is not None:
            return len(value.shape) - 2
    X = required(node)
    raise UnsupportedError(
        f"Node '{node.name}' (GridSample) has an input '{X.name}' of unknown rank "
        f"({describe(X)}), and its gradient is written axis by axis. "
        "Declare the shape of the input; its dimensions may be symbols."
    )


def _taps(op: GradientBuilder, node: ir.Node, n: ir.Value, size: ir.Value) -> Taps:
    """Return what samples read along one axis, given its coordinates from -1 to 1."""
    mode = node.attributes.get_string("mode", "linear")
    padding = node.attributes.get_string("padding_mode", "zeros")
    aligned = node.attributes.get_int("align_corners", 0)
    # From the centre of the first pixel to that of the last, or from edge to edge.
    span = op.cast(op.Sub(size, aligned), n)
    x = op.Div(op.Add(op.Mul(op.Add(n, 1.0), span), aligned - 1.0), 2.0)
    if padding == "zeros":
        return inside(op, _MODES[mode](op, x), size)
    if mode == "linear":
        x = _held(op, x, size, aligned, padding)
    taps = _MODES[mode](op, x)
    return Taps(_padded(op, taps.places, size, aligned, padding), taps.weights)


def _padded(op: Builder, places: ir.Value, size: ir.Value, aligned: int, padding: str) -> ir.Value:
    """Return the pixels that stand for those outside: the last ones, or mirror images."""
    if padding == "border":
        return op.Min(op.Max(places, 0), op.Sub(size, 1))
    period = op.Mul(op.Sub(size, aligned), 2)
    turned = op.Mod(places, op.Max(period, 1))
    return op.Min(turned, op.Sub(op.Sub(period, 1 - aligned), turned))


def _held(op: Builder, x: ir.Value, size: ir.Value, aligned: int, padding: str) -> ir.Value:
    """Return the same coordinates, without a gradient where one is exactly at the border."""
    whole = op.Floor(x)
    place = _padded(op, op.Cast(whole, to=int(ir.DataType.INT64)), size, aligned, padding)
    ends = op.Or(op.Equal(place, 0), op.Equal(place, op.Sub(size, 1)))
    return op.Where(op.And(ends, op.Equal(x, whole)), whole, x)


@rule("AffineGrid")
def affine_grid(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y[n,o] = Θ[n]·(x[o], 1), so dΘ[n] = Σ dY[n,o]·(x[o], 1)ᵀ.

    The points x[o] are what the operator itself makes of the unit matrix.
    """
    theta, size = required(node), required(node, 1)
    wide, axes = op.widened(dY), op.dim(theta, 1)
    zeros = op.Expand(op.constant(0, wide.dtype), op.Concat(axes, op.dim(theta, 2), axis=0))
    one = op.Concat([1], op.Slice(size, [1], [2**31]), axis=0)
    aligned = node.attributes.get_int("align_corners", 0)
    grid = op.AffineGrid(op.Unsqueeze(op.EyeLike(zeros), [0]), one, align_corners=aligned)
    points = pad_along(op, op.Reshape(grid, op.Concat([-1], axes, axis=0)), [0, 1], [1], 1.0)
    shape = op.Concat(op.dim(theta, 0), op.dim(points, 0), axes, axis=0)
    columns = op.Transpose(op.Reshape(wide, shape, allowzero=1), perm=[0, 2, 1])
    return op.cast(op.MatMul(columns, points), theta)
