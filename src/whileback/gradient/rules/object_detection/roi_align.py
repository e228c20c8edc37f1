"""The gradient of `RoiAlign`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.definition import by_definition
from whileback.gradient.rules.sampling import Taps, linear, pixels, weighted
from whileback.graph.builder import Builder


@rule("RoiAlign")
def roi_align(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Sequence[ir.Value | None]:
    """Y is the mean of linear samples of X at the points of a grid over each bin of a region.

    So dX adds up the weights of these, and the corners of a region move their points. In mode
    "max", Y is the largest of the samples' terms, as the reference has it: equal ones share dY.
    At a pixel the slope is the one to its right.
    """
    return by_definition(op, node, dY, _define)


def _define(
    op: GradientBuilder, node: ir.Node, X: ir.Value, rois: ir.Value, batch_indices: ir.Value
) -> ir.Value:
    images, regions = op.widened(X), op.widened(rois)
    sides = [_side(op, node, regions, axis, op.dim(X, 2 + axis)) for axis in (0, 1)]
    first = op.Reshape(batch_indices, [-1, 1, 1, 1, 1])
    places = [side.taps.places for side in sides]
    values = pixels(op, images, op.cast(first, ir.DataType.INT64), places)
    reduce = _largest if node.attributes.get_string("mode", "avg") == "max" else _mean
    bins = reduce(op, values, sides)
    return op.cast(op.Transpose(bins, perm=[0, 3, 1, 2]), X)


@dataclass(frozen=True)
class _Side:
    """The points of all regions along one axis.

    Attributes:
        taps: what the points read; their axes are region, bins, bins, points, points, with size 1
            for those of the other side.
        used: which of the points there are: as many as the largest bin has are made for all.
        count: how many there are in a bin of each region.
    """

    taps: Taps
    used: ir.Value
    count: ir.Value


def _side(op: Builder, node: ir.Node, rois: ir.Value, axis: int, size: ir.Value) -> _Side:
    bins = node.attributes.get_int(("output_height", "output_width")[axis], 1)
    start, length = _extent(op, node, rois, axis)
    width = op.Div(length, float(bins))
    ratio = node.attributes.get_int("sampling_ratio", 0)
    given = op.constant(ratio, rois.dtype)
    count = op.Expand(given, op.Shape(width)) if ratio > 0 else op.Ceil(width)
    most = op.ReduceMax(op.Concat(count, op.constant([1], rois.dtype), axis=0), keepdims=1)
    points = op.cast(op.arange(op.Cast(most, to=int(ir.DataType.INT64))), rois)
    start, width, number = (op.Unsqueeze(v, [1, 2]) for v in (start, width, count))
    steps = op.Div(op.Add(points, 0.5), op.Max(number, 1.0))
    numbers = op.constant([[k] for k in range(bins)], rois.dtype)
    x = op.Add(start, op.Mul(op.Add(steps, numbers), width))
    used = op.Less(points, number)
    taps = _taps(op, x, used, size)
    others = [2, 4] if axis == 0 else [1, 3]
    spread = Taps(op.Unsqueeze(taps.places, others), op.Unsqueeze(taps.weights, others))
    return _Side(spread, op.Unsqueeze(used, others), count)


def _extent(op: Builder, node: ir.Node, rois: ir.Value, axis: int) -> tuple[ir.Value, ir.Value]:
    """Return where regions start along an axis, and how long they are, in pixels."""
    scale = node.attributes.get_float("spatial_scale", 1.0)
    start, end = (op.Mul(op.Gather(rois, k, axis=1), scale) for k in (1 - axis, 3 - axis))
    length = op.Sub(end, start)
    if node.attributes.get_string("coordinate_transformation_mode") == "output_half_pixel":
        return start, op.Clip(length, 1.0)
    return op.Sub(start, 0.5), length


def _taps(op: Builder, x: ir.Value, used: ir.Value, size: ir.Value) -> Taps:
    """Read between pixels; a point up to one pixel outside is moved to the border."""
    last = op.Sub(size, 1)
    taps = linear(op, op.Clip(x, 0.0, op.Squeeze(op.cast(last, x), [0])))
    near = op.And(op.GreaterOrEqual(x, -1.0), op.LessOrEqual(x, op.cast(size, x)))
    weights = op.Where(op.Unsqueeze(op.And(near, used), [-1]), taps.weights, 0.0)
    return Taps(op.Min(taps.places, last), weights)


def _mean(op: Builder, values: ir.Value, sides: Sequence[_Side]) -> ir.Value:
    total = op.ReduceSum(weighted(op, values, [side.taps for side in sides]), [3, 4], keepdims=0)
    count = op.Mul(*(op.Max(side.count, 1.0) for side in sides))
    return op.Div(total, op.Unsqueeze(count, [1, 2, 3]))


def _largest(op: Builder, values: ir.Value, sides: Sequence[_Side]) -> ir.Value:
    """Return the largest product of a pixel and its weight in each bin, 0 in one of no points."""
    rows, columns = (op.Unsqueeze(side.taps.weights, [-1]) for side in sides)
    terms = op.Mul(op.Mul(values, op.Unsqueeze(rows, [-2])), op.Unsqueeze(columns, [-3]))
    used = op.Unsqueeze(op.And(*(side.used for side in sides)), [-3, -2, -1])
    largest = op.ReduceMax(op.Where(used, terms, -math.inf), [3, 4, 5, 6], keepdims=0)
    there = op.And(*(op.Greater(side.count, 0.0) for side in sides))
    return op.Where(op.Unsqueeze(there, [1, 2, 3]), largest, 0.0)
