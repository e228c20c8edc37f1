"""The gradient of `MaxRoiPool`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.sampling import numbers, pixels
from whileback.gradient.rules.tensor.places import add_at
from whileback.graph.builder import Builder


@rule("MaxRoiPool")
def max_roi_pool(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the largest X in each bin of a region, so dX adds up dY there; the first of equal ones.

    Regions are rounded to whole pixels, and have no gradient.
    """
    X, rois = required(node), op.widened(required(node, 1))
    image = op.Cast(op.Gather(rois, [0], axis=1), to=int(ir.DataType.INT64))
    rows, columns = (_bins(op, node, rois, axis) for axis in (0, 1))
    first = _largest(op, X, image, rows, columns)
    channels = op.arange(op.dim(X, 1))
    planes = op.Add(op.Mul(op.Unsqueeze(image, [2, 3]), op.dim(X, 1)), channels)
    area = op.Mul(op.dim(X, 2), op.dim(X, 3))
    places = op.Reshape(op.Add(op.Mul(planes, area), first), [-1])
    full = op.And(op.Unsqueeze(rows.full, [2, 3]), op.Unsqueeze(columns.full, [1, 3]))
    back = op.Where(full, op.Transpose(dY, perm=[0, 2, 3, 1]), op.constant(0, dY.dtype))
    length = op.Reshape(op.Size(X), [1])
    return op.reshape(add_at(op, length, places, op.Reshape(back, [-1]), 0), X)


@dataclass(frozen=True)
class _Bins:
    """The pixels of bins along one axis, [region, bin, pixel]: as many as the largest bin has.

    Those behind the end of a bin are not `there`; a bin that has none is not `full`.
    """

    places: ir.Value
    there: ir.Value
    full: ir.Value


def _bins(op: Builder, node: ir.Node, rois: ir.Value, axis: int) -> _Bins:
    count = node.attributes["pooled_shape"].as_ints()[axis]
    start, last = (_rounded(op, node, op.Gather(rois, [k], axis=1)) for k in (2 - axis, 4 - axis))
    width = op.Div(op.Max(op.Add(op.Sub(last, start), 1.0), 1.0), float(count))
    bins = op.constant([range(count)], rois.dtype)
    size = op.dim(required(node), 2 + axis)
    begins, ends = (
        op.Min(op.Max(op.Cast(op.Add(start, bound), to=int(ir.DataType.INT64)), 0), size)
        for bound in (
            op.Floor(op.Mul(width, bins)),
            op.Ceil(op.Mul(width, op.Add(bins, 1.0))),
        )
    )
    sizes = op.Sub(ends, begins)
    most = op.ReduceMax(op.Concat(op.Reshape(sizes, [-1]), [1], axis=0), keepdims=1)
    places = op.Add(op.Unsqueeze(begins, [2]), op.arange(most))
    there = op.Less(places, op.Unsqueeze(ends, [2]))
    return _Bins(op.Min(places, op.Sub(size, 1)), there, op.Greater(sizes, 0))


def _rounded(op: Builder, node: ir.Node, corner: ir.Value) -> ir.Value:
    """Return a corner in whole pixels; from the middle between two away from 0."""
    scaled = op.Mul(corner, node.attributes.get_float("spatial_scale", 1.0))
    return op.Mul(op.Sign(scaled), op.Floor(op.Add(op.Abs(scaled), 0.5)))


def _largest(op: Builder, X: ir.Value, image: ir.Value, rows: _Bins, columns: _Bins) -> ir.Value:
    """Return the first of the largest pixels, [region, bin, bin, channel], by number in X."""
    places = [op.Unsqueeze(rows.places, [2]), op.Unsqueeze(columns.places, [1])]
    values = pixels(op, op.widened(X), op.Unsqueeze(image, [2]), places)
    there = op.And(op.Unsqueeze(rows.there, [2, 4, 5]), op.Unsqueeze(columns.there, [1, 3, 5]))
    values = op.Where(there, values, -math.inf)
    largest = op.Equal(values, op.ReduceMax(values, [3, 4]))
    sizes = op.dim(X, 2), op.dim(X, 3)
    number = op.Unsqueeze(numbers(op, op.constant([0]), places, sizes), [-1])
    last = op.Sub(op.Mul(*sizes), 1)
    return op.ReduceMin(op.Where(largest, number, last), [3, 4], keepdims=0)
