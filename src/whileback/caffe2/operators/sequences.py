"""Sequences of different lengths: packed beside each other, reversed, padded."""

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
)
from whileback.caffe2.operators.rows import (
    Segments,
    blank_row,
    packed,
    places_within,
    rows_of_ranges,
    starts,
    wide,
)
from whileback.caffe2.operators.shapes import count_argument
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import is_float


def _longest(op: Emitter, lengths: ir.Value) -> ir.Value:
    """Return the largest length, INT64[1], 0 if there is none."""
    return op.ReduceMax(op.Concat(wide(op, lengths), [0], axis=0), keepdims=1)


@lowering("PackSegments")
def pack_segments(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y[s, i] is row i of segment s; zeros, or -∞ with `pad_minf`, behind the segment's last row.

    There are as many i as the longest segment has rows, or `max_length`; the second output tells
    which of them are rows.
    """
    lengths, X = node.tensors(2)
    given = node.args.int("max_length", -1)
    width = _longest(op, lengths) if given < 0 else op.constant([given])
    minf = node.args.bool("pad_minf", False) and is_float(X)
    return list(packed(op, X, lengths, width, -np.inf if minf else 0))


@lowering("PackRNNSequence")
def pack_rnn_sequence(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, s] is row i of segment s, zeros behind its last one."""
    X, lengths = node.tensors(2)
    return packed(op, X, lengths, _longest(op, lengths), time_first=True)[0]


def _unpacked(op: Emitter, lengths: ir.Value, X: ir.Value, time_first: bool = False) -> ir.Value:
    """Return the rows of each segment from where they lie beside those of the others."""
    segments = Segments.of_lengths(op, lengths)
    places = [segments.ids, places_within(op, segments)]
    columns = [op.Unsqueeze(each, [1]) for each in (reversed(places) if time_first else places)]
    return op.GatherND(X, op.Concat(*columns, axis=1))


@lowering("UnpackSegments")
def unpack_segments(op: Emitter, node: Operator) -> ir.Value:
    """The rows X[s, i] that belong to segments, one segment after the other."""
    lengths, X = node.tensors(2)
    given = node.args.int("max_length", -1)
    if given >= 0:
        lengths = op.Min(wide(op, lengths), given)
    return _unpacked(op, lengths, X)


@lowering("UnpackRNNSequence")
def unpack_rnn_sequence(op: Emitter, node: Operator) -> ir.Value:
    """The rows X[i, s] that belong to segments, one segment after the other."""
    X, lengths = node.tensors(2)
    return _unpacked(op, lengths, X, time_first=True)


@gradient_operator("PackSegments")
def pack_segments_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is the rows of dY that are rows of segments; those beyond `max_length` get zeros."""
    lengths, X = op.input
    width = Arguments(op).int("max_length", -1)
    if width < 0:
        return [None, grad.add("UnpackSegments", [lengths, dys[0]], f"{X}_grad")]
    rows = grad.add("Range", [grad.add("Shape", [X], f"{X}_count", axes=[0])], f"{X}_rows")
    kept = grad.add("PackSegments", [lengths, rows], f"{X}_packed", max_length=width)
    names = (f"{X}_places", f"{X}_kept_grad")
    places, given = (
        grad.add("UnpackSegments", [lengths, each], name, max_length=width)
        for each, name in zip((kept, dys[0]), names, strict=True)
    )
    return [None, grad.add("SparseToDense", [places, given, X], f"{X}_grad")]


@gradient_operator("PackRNNSequence")
def pack_rnn_sequence_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX = UnpackRNNSequence(dY, lengths)."""
    X, lengths = op.input
    return [grad.add("UnpackRNNSequence", [dys[0], lengths], f"{X}_grad"), None]


@gradient_operator("UnpackSegments", "UnpackRNNSequence")
def unpack_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX has dY at the places of segments, zeros elsewhere.

    Unpacking the numbers of these places tells where each row came from. (Packing dY would not
    do: X may be wider than the longest segment, or with `max_length` narrower.)
    """
    X = op.input[1 if op.type == "UnpackSegments" else 0]
    flat = grad.add("MergeDim", [X], f"{X}_flat")
    rows = grad.add("Range", [grad.add("Shape", [flat], f"{X}_count", axes=[0])], f"{X}_rows")
    shape = grad.add("Shape", [X], f"{X}_leading", axes=[0, 1])
    table = grad.add_all("Reshape", [rows, shape], [f"{X}_numbers", f"{X}_old_shape"])[0]
    column = grad.add("ExpandDims", [table], f"{X}_column", dims=[2])
    inputs = [column if each == X else each for each in op.input]
    limit = Arguments(op).int("max_length", -1)
    picked = grad.add(op.type, inputs, f"{X}_picked", max_length=limit)
    places = grad.add("FlattenToVec", [picked], f"{X}_places")
    dense = grad.add("SparseToDense", [places, dys[0], flat], f"{X}_flat_grad")
    dX = grad.add("ResizeLike", [dense, X], f"{X}_grad")
    return [dX if each == X else None for each in op.input]


@lowering("ReversePackedSegs")
def reverse_packed_segs(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, s] = X[lengths[s] - 1 - i, s]; what lies behind the segment's end stays."""
    X, lengths = node.tensors(2)
    return op.ReverseSequence(X, wide(op, lengths), time_axis=0, batch_axis=1)


@gradient_operator("ReversePackedSegs")
def reverse_packed_segs_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str]
) -> list[Gradient]:
    """dX is dY reversed again."""
    X, lengths = op.input
    return [grad.add("ReversePackedSegs", [dys[0], lengths], f"{X}_grad"), None]


def _padding(node: Operator) -> tuple[int, int]:
    """Return how many rows are added before and behind each segment, 1 and as many by default."""
    before = count_argument(node, "padding_width", 1, least=0)
    return before, count_argument(node, "end_padding_width", before, least=0)


def _lengths(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    """Return the lengths of the segments, INT64: all rows are one where none are given."""
    lengths = node.optional(1)
    return op.dim(X, 0) if lengths is None else wide(op, lengths)


@lowering("AddPadding")
def add_padding(op: Emitter, node: Operator) -> list[ir.Value]:
    """Every segment with rows before and behind it: the third and fourth input, or zeros."""
    (X,) = node.tensors(1)
    lengths = _lengths(op, node, X)
    before, behind = _padding(node)
    first = node.optional(2)
    pads = [pad for pad in (first, node.optional(3) or first) if pad is not None]
    blanks = [op.Unsqueeze(pad, [0]) for pad in pads] or [blank_row(op, X)] * 2
    longer = op.Add(lengths, before + behind)
    segments = Segments.of_lengths(op, longer)
    place = op.Sub(places_within(op, segments), before)
    own = op.Add(segments.spread(op, starts(op, lengths)), place)
    is_behind = op.GreaterOrEqual(place, segments.spread(op, lengths))
    count = op.dim(X, 0)
    places = op.Where(is_behind, op.Add(count, [1]), op.Where(op.Less(place, 0), count, own))
    rows = op.Gather(op.Concat(X, *blanks, axis=0), places)
    return [rows, op.cast(longer, ir.DataType.INT32)]


@lowering("RemovePadding")
def remove_padding(op: Emitter, node: Operator) -> list[ir.Value]:
    """Every segment without its first and last rows."""
    (X,) = node.tensors(1)
    lengths = _lengths(op, node, X)
    before, behind = _padding(node)
    # ONNX Runtime 1.32 does not survive negative lengths.
    shorter = op.Max(op.Sub(lengths, before + behind), 0)
    rows = rows_of_ranges(op, op.Add(starts(op, lengths), before), shorter)
    return [op.Gather(X, rows), op.cast(shorter, ir.DataType.INT32)]


@lowering("GatherPadding")
def gather_padding(op: Emitter, node: Operator) -> list[ir.Value]:
    """The sum of the first rows of all segments, and that of their last ones; or of both."""
    (X,) = node.tensors(1)
    lengths = _lengths(op, node, X)
    before, behind = _padding(node)
    first = starts(op, lengths)
    last = op.Sub(op.Add(first, lengths), behind)
    sums = []
    for start, width in ((first, before), (last, behind)):
        rows = rows_of_ranges(op, start, op.Expand(width, op.shape_of(lengths)))
        sums.append(op.ReduceSum(op.Gather(X, rows), [0], keepdims=0))
    return sums if len(node.outputs) > 1 else [op.Add(*sums)]


@gradient_operator("AddPadding")
def add_padding_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is dY without the padding; what was padded gets the sum of that."""
    X, *lengths_and_pads = op.input
    lengths, pads = lengths_and_pads[:1], lengths_and_pads[1:]
    inputs = [dys[0], *_new_lengths(grad, op)]
    found = grad.emit("RemovePadding", inputs, of=[X], like=op)
    if pads:
        found += grad.emit("GatherPadding", inputs, of=pads, like=op)
    return [found[0], *[None for _ in lengths], *found[1:]]


@gradient_operator("RemovePadding")
def remove_padding_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is dY with zeros before and behind each segment."""
    X, *lengths = op.input
    inputs = [dys[0], *_new_lengths(grad, op)]
    return [*grad.emit("AddPadding", inputs, of=[X], like=op)[:1], *[None for _ in lengths]]


def _new_lengths(grad: Gradients, op: OperatorDef) -> list[str]:
    """Return the lengths behind an operator that pads, unless all rows are one segment."""
    if len(op.input) == 1:
        return []
    if len(op.output) > 1:
        return [op.output[1]]
    again = grad.emit(op.type, op.input[:2], of=[op.input[0], op.input[1]], like=op)
    return again[1:]


@lowering("PadEmptySamples")
def pad_empty_samples(op: Emitter, node: Operator) -> list[ir.Value]:
    """Every segment without rows gets one of zeros: the lengths, and the rows of each tensor."""
    lengths, *features = node.tensors(len(node.inputs))
    lengths = wide(op, lengths)
    filled = op.Max(lengths, 1)
    segments = Segments.of_lengths(op, filled)
    own = op.Add(segments.spread(op, starts(op, lengths)), places_within(op, segments))
    empty = segments.spread(op, op.Equal(lengths, 0))
    rows = [
        op.Gather(op.Concat(X, blank_row(op, X), axis=0), op.Where(empty, op.dim(X, 0), own))
        for X in features
    ]
    return [op.cast(filled, ir.DataType.INT32), *rows]
