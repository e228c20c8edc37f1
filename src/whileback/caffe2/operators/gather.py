"""Picking rows, elements or ranges by index."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    Slices,
    gradient_operator,
    lowering,
)
from whileback.caffe2.operators.rows import (
    add_rows,
    blank_row,
    put_rows_back,
    rows_of_ranges,
    starts,
    wide,
)
from whileback.caffe2.operators.shapes import checked_count
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


def _gathered(
    op: Emitter, X: ir.Value, indices: ir.Value, axis: int, match_outer: bool
) -> ir.Value:
    """Y = X[…, indices, …] along the axis; with `match_outer`, axes before it go in step."""
    if not match_outer:
        return op.Gather(X, indices, axis=axis)
    indices = op.cast(indices, ir.DataType.INT64)
    return op.GatherND(X, op.Unsqueeze(indices, [-1]), batch_dims=axis)


@lowering("Gather")
def gather(op: Emitter, node: Operator) -> ir.Value:
    """Y = X[indices] along `axis`, 0 by default."""
    X, indices = node.tensors(2)
    return _gathered(op, X, indices, node.args.int("axis", 0), node.args.bool("match_outer", False))


@lowering("BatchGather")
def batch_gather(op: Emitter, node: Operator) -> ir.Value:
    """Y = X[:, indices]."""
    X, indices = node.tensors(2)
    return _gathered(op, X, indices, 1, node.args.bool("match_outer", False))


@lowering("BatchGatherGradient")
def batch_gather_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradient of X, from X, the indices and dY; `axis` is 1 by default."""
    X, indices, dY = node.tensors(3)
    axis, match_outer = node.args.int("axis", 1), node.args.bool("match_outer", False)
    return op.pullback(lambda op, X: _gathered(op, X, indices, axis, match_outer), [X], [dY])


@gradient_operator("Gather")
def gather_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """Rows of dX along the first axis are rows of dY: a sparse gradient without operators.

    It is dense with `dense_gradient`, and along another axis.
    """
    args = Arguments(op)
    X, indices = op.input
    if args.int("axis", 0) != 0:
        return [*grad.emit("BatchGatherGradient", [X, indices, dys[0]], of=[X], like=op), None]
    if args.bool("dense_gradient", False):
        return [_dense(grad, X, indices, dys[0]), None]
    return [Slices(indices, dys[0]), None]


def _dense(grad: Gradients, X: str, indices: str, dy: str) -> str:
    """Return dX: zeros with the rows of dY added. (SparseToDense takes only a list of indices.)"""
    dX = grad.zeros_like(X)
    one = grad.add("ConstantFill", [], "one", shape=[1], value=1.0)
    inputs = [dX, one, indices, dy, one]
    op = OperatorDef(type="ScatterWeightedSum", input=inputs, output=[dX], is_gradient_op=True)
    grad.ops.append(op)
    return dX


@gradient_operator("BatchGather")
def batch_gather_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX = BatchGatherGradient(X, indices, dY)."""
    X, indices = op.input
    return [*grad.emit("BatchGatherGradient", [X, indices, dys[0]], of=[X], like=op), None]


@lowering("BatchPermutation")
def batch_permutation(op: Emitter, node: Operator) -> ir.Value:
    """Y[i] = X[indices[i]], a permutation."""
    X, indices = node.tensors(2)
    return op.Gather(X, indices)


@lowering("BatchPermutationGradient")
def batch_permutation_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX[indices[i]] = dY[i]."""
    indices, dY = node.tensors(2)
    return add_rows(op, op.dim(dY, 0), indices, dY)


@gradient_operator("BatchPermutation")
def batch_permutation_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX = BatchPermutationGradient(indices, dY)."""
    X, indices = op.input
    return [*grad.emit("BatchPermutationGradient", [indices, dys[0]], of=[X], like=op), None]


@lowering("GatherRanges")
def gather_ranges(op: Emitter, node: Operator) -> list[ir.Value]:
    """The elements of X in ranges (start, length), and how many there are for each row of them."""
    X, ranges = node.tensors(2)
    first, lengths = _parts(op, ranges)
    rows = rows_of_ranges(op, *(op.Reshape(each, [-1]) for each in (first, lengths)))
    return [op.Gather(X, rows), op.cast(op.ReduceSum(lengths, [1], keepdims=0), ir.DataType.INT32)]


def _parts(op: Emitter, ranges: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the starts and the lengths of ranges, INT64."""
    first, lengths = (op.Gather(wide(op, ranges), part, axis=-1) for part in (0, 1))
    return first, lengths


@lowering("LengthsGather")
def lengths_gather(op: Emitter, node: Operator) -> ir.Value:
    """The rows of the segments with given numbers, one segment after the other."""
    X, lengths, indices = node.tensors(3)
    chosen = [op.Gather(each, indices) for each in (starts(op, lengths), wide(op, lengths))]
    return op.Gather(X, rows_of_ranges(op, *chosen))


@gradient_operator("GatherRanges", "LengthsGather")
def ranges_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is dY added up where each element or row came from."""
    return [put_rows_back(grad, op, dys[0]), *[None for _ in op.input[1:]]]


@lowering("GatherRangesToDense")
def gather_ranges_to_dense(op: Emitter, node: Operator) -> list[ir.Value]:
    """For each feature the elements of its range in each example, zeros if the length is another.

    A key for each element orders those of a range.
    """
    X, ranges = node.tensors(2)
    key = node.optional(2)
    first, lengths = _parts(op, ranges)
    widths = [checked_count(node, "lengths", n, least=0) for n in node.args.ints("lengths")]
    if len(widths) != len(node.outputs):
        raise NetDefError(
            f"{label(node.proto)} has {len(node.outputs)} outputs, but {len(widths)} 'lengths'; "
            "each output needs one."
        )
    return [
        _feature(op, X, key, op.Gather(first, j, axis=1), op.Gather(lengths, j, axis=1), length)
        for j, length in enumerate(widths)
    ]


def _feature(
    op: Emitter, X: ir.Value, key: ir.Value | None, first: ir.Value, lengths: ir.Value, width: int
) -> ir.Value:
    """Return one feature, [examples, width]."""
    own = op.Add(op.Unsqueeze(first, [1]), op.arange(op.constant([width])))
    right = op.Unsqueeze(op.Equal(lengths, width), [1])
    places = op.Where(right, own, op.dim(X, 0))
    if key is not None:
        keys = op.Gather(op.Concat(key, blank_row(op, key), axis=0), places)
        order = op.emit("TopK", [keys, [width]], {"axis": 1, "largest": 0}, outputs=2)[1]
        places = op.GatherElements(places, order, axis=1)
    return op.Gather(op.Concat(X, blank_row(op, X), axis=0), places)
