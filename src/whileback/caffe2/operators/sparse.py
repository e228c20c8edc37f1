"""Rows or elements given by index: made dense, and written into a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.rows import add_rows
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("SparseToDense")
def sparse_to_dense(op: Emitter, node: Operator) -> ir.Value:
    """Y[indices[k]] is the sum of the rows values[k].

    Y has as many rows as the third input, or `output_first_dim`, or the largest index and one.
    """
    indices, values = node.tensors(2)
    like = node.optional(2)
    given = node.args.int("output_first_dim", 0)
    if like is not None:
        rows = op.dim(like, 0)
    else:
        rows = op.constant([given]) if given else _count_named(op, indices)
    return add_rows(op, rows, indices, values)


def _count_named(op: Emitter, indices: ir.Value) -> ir.Value:
    """Return the largest index and one, as INT64[1]: 0 where there is no index."""
    wide = op.cast(indices, ir.DataType.INT64)
    return op.Add(op.ReduceMax(op.Concat(wide, [-1], axis=0), [0], keepdims=1), [1])


@gradient_operator("SparseToDense")
def sparse_to_dense_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """A value's gradient is the row of dY that it was added to."""
    indices, values = op.input[:2]
    return [None, *grad.emit("Gather", [dys[0], indices], of=[values], like=OperatorDef())]
