"""Reading images between their pixels: what `GridSample`, `DeformConv` and `RoiAlign` share.

A sample is a weighted sum of the pixels around a point. Places and weights are found for each
axis on its own; the pixels that a sample reads are all combinations of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder

__all__ = ["Taps", "cubic", "inside", "linear", "nearest", "numbers", "pixels", "weighted"]


@dataclass(frozen=True)
class Taps:
    """What samples read along one axis: `places`, whole numbers, with their `weights`.

    Both have the shape of the samples and one more axis, over what a sample reads.
    """

    places: ir.Value
    weights: ir.Value


def nearest(op: Builder, x: ir.Value) -> Taps:
    """Read the pixel that a coordinate is nearest to, the even one in the middle between two."""
    place = op.Unsqueeze(op.Cast(op.Round(x), to=int(ir.DataType.INT64)), [-1])
    return Taps(place, op.Expand(op.constant(1, x.dtype), op.Shape(place)))


def linear(op: Builder, x: ir.Value) -> Taps:
    """Read the two pixels around a coordinate, with weights 1 - t and t.

    At a pixel the slope is the one to its right, as in PyTorch.
    """
    return _around(op, x, np.array([[1, 0], [-1, 1]]))


def cubic(op: Builder, x: ir.Value, a: float = -0.75) -> Taps:
    """Read the four pixels around a coordinate, with the weights of cubic convolution."""
    rows = [[0, 1, 0, 0], [a, 0, -a, 0], [-2 * a, -a - 3, 2 * a + 3, a], [a, a + 2, -a - 2, -a]]
    return _around(op, x, np.array(rows))


def _around(op: Builder, x: ir.Value, polynomials: np.ndarray) -> Taps:
    """Weigh pixels by polynomials in the distance t to the one before: row k has those of tᵏ."""
    before = op.Floor(x)
    t = op.Unsqueeze(op.Sub(x, before), [-1])
    weights = op.constant(polynomials[-1], x.dtype)
    for row in polynomials[-2::-1]:
        weights = op.Add(op.Mul(weights, t), op.constant(row, x.dtype))
    count = len(polynomials[0])
    offsets = [k - (count // 2 - 1) for k in range(count)]
    places = op.Add(op.Unsqueeze(op.Cast(before, to=int(ir.DataType.INT64)), [-1]), offsets)
    return Taps(places, weights)


def inside(op: Builder, taps: Taps, size: ir.Value) -> Taps:
    """Give no weight to what lies outside of an axis of this size, INT64[1]."""
    last = op.Sub(size, 1)
    places = op.Min(op.Max(taps.places, 0), last)
    weights = op.Where(op.Equal(places, taps.places), taps.weights, 0.0)
    return Taps(places, weights)


def numbers(
    op: Builder, image: ir.Value, places: Sequence[ir.Value], sizes: Sequence[ir.Value]
) -> ir.Value:
    """Return the numbers of pixels, counted row by row through images of these sizes.

    Args:
        op: emits the operators.
        image: the number of the image that a sample reads, of the samples' shape, or broadcast.
        places: what samples read along each axis: their shape, and one axis more.
        sizes: of these axes, INT64[1].

    Returns: all combinations of the places: the samples' shape, and one axis more for each.
    """
    for index, (place, size) in enumerate(zip(places, sizes, strict=True)):
        own = op.Unsqueeze(place, list(range(-1 - index, -1))) if index else place
        image = op.Add(op.Unsqueeze(op.Mul(image, size), [-1]), own)
    return image


def pixels(op: Builder, X: ir.Value, image: ir.Value, places: Sequence[ir.Value]) -> ir.Value:
    """Return what samples read of images X[N, C, …], with an axis for the channels at the end.

    For the other arguments, and the axes before that, see `numbers`.
    """
    axes = list(range(2, 2 + len(places)))
    sizes = [op.dim(X, axis) for axis in axes]
    total = op.ReduceProd(op.Concat(op.dim(X, 0), *sizes, axis=0), keepdims=1)
    rows = op.Transpose(X, perm=[0, *axes, 1])
    flat = op.Reshape(rows, op.Concat(total, op.dim(X, 1), axis=0), allowzero=1)
    return op.Gather(flat, numbers(op, image, places, sizes))


def weighted(op: Builder, values: ir.Value, taps: Sequence[Taps]) -> ir.Value:
    """Return the samples, [samples…, channels], that the taps make of what they read."""
    for index in reversed(range(len(taps))):
        weights = op.Unsqueeze(taps[index].weights, [*range(-2 - index, -2), -1])
        values = op.ReduceSum(op.Mul(values, op.cast(weights, values)), [-2], keepdims=0)
    return values
