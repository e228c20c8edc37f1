"""Lengths of segments: what follows from them, and rows picked or padded by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.operators.rows import (
    Segments,
    add_rows,
    packed,
    places_within,
    rows_shape,
    starts,
    wide,
)
from whileback.caffe2.operators.shapes import count_argument
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef, TensorProto

not_differentiable(
    "lengths are whole numbers",
    "LengthsToSegmentIds",
    "LengthsRangeFill",
    "LengthsToRanges",
    "LengthsToOffsets",
    "LengthsToShape",
    "LengthsToWeights",
    "LengthsSplit",
    "SegmentIdsToLengths",
    "SegmentIdsToRanges",
)


def _int32(op: Emitter, numbers: ir.Value) -> ir.Value:
    return op.cast(numbers, ir.DataType.INT32)


def _columns(op: Emitter, *columns: ir.Value) -> ir.Value:
    return op.Concat(*(op.Unsqueeze(column, [1]) for column in columns), axis=1)


@lowering("LengthsToSegmentIds")
def lengths_to_segment_ids(op: Emitter, node: Operator) -> ir.Value:
    """[2, 0, 3] → [0, 0, 2, 2, 2]."""
    (lengths,) = node.tensors(1)
    return _int32(op, Segments.of_lengths(op, lengths).ids)


@lowering("LengthsRangeFill")
def lengths_range_fill(op: Emitter, node: Operator) -> ir.Value:
    """[2, 0, 3] → [0, 1, 0, 1, 2]."""
    (lengths,) = node.tensors(1)
    return _int32(op, places_within(op, Segments.of_lengths(op, lengths)))


@lowering("LengthsToRanges")
def lengths_to_ranges(op: Emitter, node: Operator) -> ir.Value:
    """[2, 0, 3] → [[0, 2], [2, 0], [2, 3]]: start and length."""
    (lengths,) = node.tensors(1)
    return _int32(op, _columns(op, starts(op, lengths), wide(op, lengths)))


@lowering("LengthsToOffsets")
def lengths_to_offsets(op: Emitter, node: Operator) -> ir.Value:
    """[2, 0, 3] → [0, 2, 2], and the end, 5, with `include_last_offset`."""
    (lengths,) = node.tensors(1)
    if node.args.bool("include_last_offset", False):
        lengths = op.Concat(wide(op, lengths), [0], axis=0)
    return _int32(op, starts(op, lengths))


@lowering("LengthsToShape")
def lengths_to_shape(op: Emitter, node: Operator) -> ir.Value:
    """[3, 3] → [2, 3]: how many lengths, all the same, and which."""
    (lengths,) = node.tensors(1)
    return _int32(op, op.Concat(op.dim(lengths, 0), op.Gather(wide(op, lengths), [0]), axis=0))


@lowering("LengthsToWeights")
def lengths_to_weights(op: Emitter, node: Operator) -> ir.Value:
    """Each row's weight is the length of its segment to the power of -`power`, 1/2 by default."""
    (lengths,) = node.tensors(1)
    weights = op.Pow(op.cast(lengths, ir.DataType.FLOAT), -node.args.float("power", 0.5))
    return Segments.of_lengths(op, lengths).spread(op, weights)


@lowering("LengthsSplit")
def lengths_split(op: Emitter, node: Operator) -> ir.Value:
    """Every length becomes n nearly equal ones, the larger ones first."""
    (lengths,) = node.tensors(1)
    given = node.optional(1)
    n = op.constant(count_argument(node, "n_split")) if given is None else wide(op, given)
    n = op.Reshape(n, [1])
    each = op.Unsqueeze(wide(op, lengths), [1])
    extra = op.Less(op.arange(n), op.Mod(each, n))
    split = op.Add(op.Div(each, n), wide(op, extra))
    return op.Reshape(_int32(op, split), [-1])


@lowering("SegmentIdsToLengths")
def segment_ids_to_lengths(op: Emitter, node: Operator) -> ir.Value:
    """[0, 0, 2] → [2, 0, 1]; a second input, if any, has one row for each segment."""
    (ids,) = node.tensors(1)
    like = node.optional(1)
    count = None if like is None else op.dim(like, 0)
    return _int32(op, Segments.of_ids(op, ids, count).lengths)


@lowering("SegmentIdsToRanges")
def segment_ids_to_ranges(op: Emitter, node: Operator) -> ir.Value:
    """[0, 0, 2] → [[0, 2], [2, 0], [2, 1]], and [0, 0] for empty segments at the end."""
    (ids,) = node.tensors(1)
    like = node.optional(1)
    lengths = Segments.of_ids(op, ids).lengths
    ranges = _columns(op, starts(op, lengths), lengths)
    if like is not None:
        more = op.Sub(op.dim(like, 0), op.dim(lengths, 0))
        blank = op.Expand(op.constant([0]), op.Concat(more, [2], axis=0))
        ranges = op.Concat(ranges, blank, axis=0)
    return _int32(op, ranges)


@lowering("LengthsTile")
def lengths_tile(op: Emitter, node: Operator) -> ir.Value:
    """Row s of X is there as often as the length of segment s says."""
    X, lengths = node.tensors(2)
    return Segments.of_lengths(op, lengths).spread(op, X)


@gradient_operator("LengthsTile")
def lengths_tile_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is the sum of the rows of dY that are copies of one row."""
    X, lengths = op.input
    return [grad.add("LengthsSum", [dys[0], lengths], f"{X}_grad"), None]


@lowering("LengthsPad")
def lengths_pad(op: Emitter, node: Operator) -> ir.Value:
    """Every segment has `target_length` rows, those behind its own full of `padding_value`."""
    X, lengths = node.tensors(2)
    width = node.args.int("target_length")
    rows, _ = packed(op, X, lengths, op.constant([width]), node.args.float("padding_value", -1.0))
    count = op.Mul(op.dim(lengths, 0), width)
    return op.Reshape(rows, rows_shape(op, count, X), allowzero=1)


@gradient_operator("LengthsPad")
def lengths_pad_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is the rows of dY that are no padding: row i of segment s is row s·`target_length` + i."""
    X, lengths = op.input
    width = Arguments(op).int("target_length")
    names = [f"{X}_{part}" for part in ("segment", "width", "start", "offset", "place", "grad")]
    segment = grad.add("LengthsToSegmentIds", [lengths], names[0])
    each = grad.add("ConstantFill", [], names[1], shape=[1], value=width, dtype=TensorProto.INT32)
    start = grad.add("Mul", [segment, each], names[2], broadcast=1)
    offset = grad.add("LengthsRangeFill", [lengths], names[3])
    places = grad.add("Add", [start, offset], names[4])
    return [grad.add("Gather", [dys[0], places], names[5]), None]


@lowering("LengthsTopK")
def lengths_top_k(op: Emitter, node: Operator) -> list[ir.Value]:
    """The k largest elements of each segment and their places in it; if fewer, 0 and -1."""
    X, lengths = node.tensors(2)
    k = op.constant([node.args.int("k")])
    width = op.Max(op.ReduceMax(wide(op, lengths), keepdims=1), k)
    flat = op.Reshape(X, [-1])
    rows, _ = packed(op, flat, lengths, width, -np.inf)
    values, places = op.emit("TopK", [rows, k], {"axis": 1}, outputs=2)
    there = op.Less(op.arange(k), op.Unsqueeze(wide(op, lengths), [1]))
    return [
        op.Where(there, values, op.constant(0, X.dtype)),
        _int32(op, op.Where(there, places, op.constant(-1))),
    ]


@lowering("LengthsTopKGradient")
def lengths_top_k_gradient(op: Emitter, node: Operator) -> ir.Value:
    """The gradient of X, from the lengths, the places of the largest elements and dY."""
    lengths, places, dY = node.tensors(3)
    own = op.Add(op.Unsqueeze(starts(op, lengths), [1]), wide(op, places))
    total = op.ReduceSum(wide(op, lengths), keepdims=1)
    target = op.Where(op.Less(places, op.constant(0, places.dtype)), total, own)
    flat = [op.Reshape(each, [-1]) for each in (target, dY)]
    return op.Slice(add_rows(op, op.Add(total, [1]), *flat), [0], total)


@gradient_operator("LengthsTopK")
def lengths_top_k_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX has dY at the places of the largest elements, zeros elsewhere."""
    X, lengths = op.input
    inputs = [lengths, op.output[1], dys[0]]
    return [*grad.emit("LengthsTopKGradient", inputs, of=[X], like=op), None]
