"""Gradients of pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import kept
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.nn.conv import spread
from whileback.gradient.rules.nn.outputs import extra_output
from whileback.gradient.rules.nn.windows import (
    Window,
    explicit_pads,
    input_pads,
    input_window,
    is_automatic,
    sizes,
)
from whileback.gradient.rules.tensor.places import add_at
from whileback.graph.builder import Operand
from whileback.graph.shapes import size


@rule("MaxPool")
def max_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value, dI: None = None) -> ir.Value:
    """Y = X[Indices], so dX is dY added up at the indices; of equal maxima the first is chosen.

    With `storage_order` 1 the indices count as if the axes after the channels were reversed.
    """
    X = required(node)
    tiles = _tiles(node)
    if tiles is not None:
        return op.reshape(_spread_over_tiles(op, X, dY, tiles), X)
    indices = op.Reshape(extra_output(op, node, 1, ir.DataType.INT64), [-1])
    count = size(X)
    length = op.Reshape(op.Size(X), [1]) if count is None else op.constant([count])
    flat = add_at(op, length, indices, op.Reshape(dY, [-1]), 0)
    if not node.attributes.get_int("storage_order", 0):
        return op.reshape(flat, X)
    reverse = [0, 1, *reversed(input_window(node).axes)]
    reversed_shape = op.Gather(op.shape_of(X), reverse)
    return op.Transpose(op.Reshape(flat, reversed_shape, allowzero=1), perm=reverse)


def _tiles(node: ir.Node) -> list[tuple[int, int]] | None:
    """Return how many windows stand side by side, and how long they are, along each axis.

    None where windows overlap, or leave something out, or that is not known.
    """
    dims, window = required(node).shape, input_window(node)
    whole = window.kernel == window.strides and {*window.dilations} == {1}
    if not whole or dims is None or any(each != 0 for each in (window.pads or (1,))):
        return None
    tiles = [
        (dim // length, length)
        for dim, length in zip(dims[2:], window.strides, strict=True)
        if isinstance(dim, int) and dim % length == 0
    ]
    return tiles if len(tiles) == len(window.strides) and 0 not in dims else None


def _spread_over_tiles(
    op: GradientBuilder, X: ir.Value, dY: ir.Value, tiles: list[tuple[int, int]]
) -> ir.Value:
    """Put dY at the first largest element of each tile of X.

    ONNX Runtime's MaxPool takes forty times as long if it is asked for its indices.
    """
    numbers, lengths = ([tile[k] for tile in tiles] for k in (0, 1))
    # From each axis cut in two, numbers and lengths, to all numbers and then all lengths.
    apart = [0, *range(1, 2 * len(tiles), 2), *range(2, 2 * len(tiles) + 1, 2)]
    cut = op.Reshape(op.widened(X), [-1, *(size for tile in tiles for size in tile)])
    elements = op.Reshape(op.Transpose(cut, perm=apart), [-1, math.prod(lengths)])
    first = op.ArgMax(elements, axis=1, keepdims=0)
    # Tiles along the last axis: short rows take the runtime ten times as long.
    chosen = op.Equal(first, np.arange(math.prod(lengths))[:, None])
    dX = op.Transpose(kept(op, chosen, op.Reshape(dY, [1, -1])), perm=[1, 0])
    together = [apart.index(axis) for axis in range(len(apart))]
    return op.Transpose(op.Reshape(dX, [-1, *numbers, *lengths]), perm=together)


@rule("MaxUnpool")
def max_unpool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is zeros with Y[I] = X, so dX = dY[I]."""
    return op.Gather(op.Reshape(dY, [-1]), required(node, 1))


@rule("AveragePool")
def average_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is a sum over a window divided by the number of its elements: dX adds up dY/number."""
    window, wide = input_window(node), op.widened(dY)
    share = op.Div(wide, _window_sizes(op, node, window, wide))
    return op.cast(_spread_evenly(op, node, share, window), dY)


@rule("LpPool")
def lp_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = (Σ |X|ᵖ)^(1/p) over a window: dX adds up dY·Y^(1-p), times |X|^(p-1)·sign(X).

    Where Y is 0 it is 0.
    """
    share = _norm_share(op, node, dY)
    dX = _norm_slope(op, node, _spread_evenly(op, node, share, input_window(node)))
    return op.cast(dX, dY)


@rule("GlobalAveragePool")
def global_average_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the mean over all axes after the channels, so dX is dY/number of their elements."""
    X = required(node)
    count = op.ReduceProd(op.Shape(X, start=2), keepdims=0)
    wide = op.widened(dY)
    return op.expand(op.cast(op.Div(wide, op.cast(count, wide)), dY), X)


@rule("GlobalMaxPool")
def global_max_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the maximum over all axes after the channels: dX is dY at the first one, else 0."""
    X = required(node)
    flat = op.Flatten(X, axis=2)
    first = op.ArgMax(flat, axis=1, keepdims=1)
    chosen = op.ScatterElements(op.zeros_like(flat), first, op.Flatten(dY, axis=2), axis=1)
    return op.reshape(chosen, X)


@rule("GlobalLpPool")
def global_lp_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = (Σ |X|ᵖ)^(1/p) over all axes after the channels: dX = dY·Y^(1-p)·|X|^(p-1)·sign(X).

    Where Y is 0 it is 0.
    """
    return op.cast(_norm_slope(op, node, _norm_share(op, node, dY)), dY)


def _norm_share(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Return dY·Y^(1-p), and dY where Y is 0."""
    Y, p = op.widened(node.outputs[0]), node.attributes.get_int("p", 2)
    dY = op.widened(dY)
    safe = op.Where(op.cast(Y, ir.DataType.BOOL), Y, 1.0)
    return dY if p == 1 else op.Div(dY, safe if p == 2 else op.Pow(safe, float(p - 1)))


def _norm_slope(op: GradientBuilder, node: ir.Node, share: ir.Value) -> ir.Value:
    """Return share·|X|^(p-1)·sign(X)."""
    X, p = op.widened(required(node)), node.attributes.get_int("p", 2)
    if p == 1:
        return op.Mul(share, op.Sign(X))
    power = X if p == 2 else op.Mul(X, op.Pow(op.Abs(X), float(p - 2)))
    return op.Mul(share, power)


def _spread_evenly(op: GradientBuilder, node: ir.Node, dY: ir.Value, window: Window) -> ir.Value:
    """Add dY[o] to all of window o, for every o: each channel is an entry of the batch."""
    X = required(node)
    planes = op.Reshape(dY, [-1, 1, *[0] * len(window.axes)])
    begins = input_pads(op, node, window)[0] if window.pads is None else None
    return op.reshape(spread(op, planes, _ones(op, node, dY), X, window, begins=begins), X)


def _window_sizes(op: GradientBuilder, node: ir.Node, window: Window, like: ir.Value) -> Operand:
    """Return how many elements each window of an average counts.

    Those in the padding count with `count_include_pad`, those that `ceil_mode` adds never do.
    """
    include = bool(node.attributes.get_int("count_include_pad", 0))
    ceil = bool(node.attributes.get_int("ceil_mode", 0))
    automatic, explicit = is_automatic(node), explicit_pads(node)
    unpadded = not automatic and not any(explicit)
    if (include and automatic) or (not ceil and (include or unpadded)):
        return float(math.prod(_kernel(node)))
    inner, pads = sizes(op, required(node), window), input_pads(op, node, window)
    if include:
        begins, ends = np.split(np.array(explicit), 2)
        inner = op.Add(inner, begins + ends)
        pads = op.constant(0 * begins), op.Sub(pads[1], ends)
    ones = op.Expand(op.constant(1, like.dtype), op.Concat([1, 1], inner, axis=0))
    counts = op.Conv(
        op.Pad(ones, op.Concat(*pads, axis=0), None, window.axes),
        _ones(op, node, like),
        strides=window.strides,
        dilations=window.dilations,
    )
    return op.Slice(counts, [0] * len(window.axes), sizes(op, like, window), window.axes)


def _ones(op: GradientBuilder, node: ir.Node, like: ir.Value) -> ir.Value:
    """Return a weight that adds up a window of one channel."""
    return op.constant(np.ones((1, 1, *_kernel(node))), like.dtype)


def _kernel(node: ir.Node) -> Sequence[int]:
    return node.attributes["kernel_shape"].as_ints()
