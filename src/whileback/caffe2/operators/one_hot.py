"""Numbers as places: one-hot rows and buckets."""

from __future__ import annotations

import sys

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.operators.rows import Segments, places_within, starts, wide
from whileback.caffe2.operators.shapes import check_size
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.graph.constants import known_ints
from whileback.graph.shapes import static_shape

INF = np.float32(np.inf)


def _depth(op: Emitter, node: Operator, rows: ir.Value, depth: ir.Value) -> ir.Value:
    """Return the width of one-hot rows as INT64[1]."""
    depth = op.Reshape(wide(op, depth), [1])
    known = known_ints(depth)
    if known is not None:
        check_size(node, [*(static_shape(rows) or ()), *known])
    return depth


@lowering("OneHot")
def one_hot(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, j] = 1 where j is the index i, else 0."""
    indices, depth = node.tensors(2)
    values = op.constant(np.array([0, 1], np.float32))
    return op.OneHot(wide(op, indices), _depth(op, node, indices, depth), values)


@lowering("SegmentOneHot")
def segment_one_hot(op: Emitter, node: Operator) -> ir.Value:
    """Y[s, j] = 1 where j is among the indices of segment s, else 0."""
    lengths, indices, depth = node.tensors(3)
    depth = _depth(op, node, lengths, depth)
    zeros = op.Expand(op.constant(np.float32(0)), op.Concat(op.dim(lengths, 0), depth, axis=0))
    rows = Segments.of_lengths(op, lengths).ids
    places = op.Concat(op.Unsqueeze(rows, [1]), op.Unsqueeze(wide(op, indices), [1]), axis=1)
    ones = op.Expand(op.constant(np.float32(1)), op.shape_of(rows))
    return op.ScatterND(zeros, places, ones)


@lowering("BatchOneHot")
def batch_one_hot(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, j] = 1 where X has value j in row i; each column of X has a segment of the values."""
    X, lengths, values = node.tensors(3)
    columns = Segments.of_lengths(op, lengths).ids
    return op.cast(op.Equal(op.Gather(X, columns, axis=1), values), X)


@lowering("BatchBucketOneHot")
def batch_bucket_one_hot(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, j] = 1 where X in row i lies in bucket j: above its lower bound, up to its upper one.

    Each column of X has a segment of the bounds, and one bucket more than bounds.
    """
    X, lengths, bounds = node.tensors(3)
    buckets = Segments.of_lengths(op, op.Add(wide(op, lengths), 1))
    place, last = places_within(op, buckets), buckets.spread(op, wide(op, lengths))
    upper_bound = op.Sub(op.arange(op.Shape(place)), buckets.ids)
    bounds = op.Concat(bounds, op.constant(np.array([INF])), axis=0)
    lower = op.Gather(bounds, op.Sub(upper_bound, 1))
    lower = op.Where(op.Equal(place, 0), op.constant(-INF), lower)
    upper = op.Where(op.Equal(place, last), op.constant(INF), op.Gather(bounds, upper_bound))
    X = op.Gather(X, buckets.ids, axis=1)
    inside = op.And(op.Greater(X, lower), op.LessOrEqual(X, upper))
    return op.cast(inside, ir.DataType.FLOAT)


@lowering("BatchBucketize")
def batch_bucketize(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, j] = how many bounds of segment j are below X in row i and column indices[j]."""
    X, indices, bounds, lengths = node.tensors(4)
    counts = _count_below(op, op.Gather(X, indices, axis=1), bounds, lengths)
    return op.cast(counts, ir.DataType.INT32)


def _count_below(op: Emitter, X: ir.Value, bounds: ir.Value, lengths: ir.Value) -> ir.Value:
    """Return how many bounds are below X; each column of X has a segment of them."""
    segments = Segments.of_lengths(op, lengths)
    below = op.Greater(op.Gather(X, segments.ids, axis=1), bounds)
    columns = op.Transpose(op.cast(below, ir.DataType.INT64), perm=[1, 0])
    return op.Transpose(segments.total(op, columns), perm=[1, 0])


@lowering("Percentile")
def percentile(op: Emitter, node: Operator) -> ir.Value:
    """Y = X by the lines between the points of each column: 0 before the first, 1 after the last.

    The rows of the second input are the points; each column of X has a segment of them.
    """
    X, points, lengths = node.tensors(3)
    places, shares = (op.Gather(points, index, axis=1) for index in (0, 1))
    below = _count_below(op, X, places, lengths)
    after = op.Add(starts(op, lengths), below)
    before = op.Max(op.Sub(after, 1), 0)
    after = op.Min(after, op.Sub(op.dim(places, 0), 1))
    x0, x1, y0, y1 = (op.Gather(each, at) for each in (places, shares) for at in (before, after))
    line = op.Add(y0, op.Div(op.Mul(op.Sub(y1, y0), op.Sub(X, x0)), op.Sub(x1, x0)))
    Y = op.Where(op.Equal(X, x1), y1, op.Where(op.Equal(below, 0), 0.0, line))
    return op.Where(op.Equal(below, wide(op, lengths)), 1.0, Y)


def _edges(op: Emitter, node: Operator, name: str) -> ir.Value:
    """Return an argument of ascending numbers."""
    edges = node.args.floats(name)
    if edges != sorted(edges):
        raise NetDefError(f"{label(node.proto)} needs ascending numbers as '{name}', not {edges}.")
    return op.constant(np.array(edges, np.float32))


@lowering("Bucketize")
def bucketize(op: Emitter, node: Operator) -> ir.Value:
    """Y = how many of the boundaries are below X."""
    (X,) = node.tensors(1)
    below = op.Greater(op.Unsqueeze(X, [-1]), _edges(op, node, "boundaries"))
    return op.ReduceSum(op.cast(below, ir.DataType.INT32), [-1], keepdims=0)


@lowering("Histogram")
def histogram(op: Emitter, node: Operator) -> ir.Value:
    """Y[j] = how many elements of all inputs are at least bin edge j and below the next one."""
    X = op.Concat(*(op.Reshape(X, [-1, 1]) for X in node.tensors(len(node.inputs))), axis=0)
    edges = op.cast(_edges(op, node, "bin_edges"), X)
    reached = op.cast(op.GreaterOrEqual(X, edges), ir.DataType.INT64)
    counts = op.ReduceSum(reached, [0], keepdims=0)
    return op.Sub(op.Slice(counts, [0], [-1]), op.Slice(counts, [1], [sys.maxsize]))


not_differentiable(
    "it tells places or counts",
    "BatchBucketOneHot",
    "BatchBucketize",
    "BatchOneHot",
    "Bucketize",
    "Histogram",
    "OneHot",
    "Percentile",
    "SegmentOneHot",
)
