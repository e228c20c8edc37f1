"""Picking rows, elements or ranges by index."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    Slices,
    gradient_operator,
    lowering,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
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
def gather_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | Slices | None]:
    """Rows of dX along the first axis are rows of dY: a sparse gradient without operators.

    It is dense with `dense_gradient`, and along another axis.
    """
    args = Arguments(op)
    X, indices = op.input
    if args.int("axis", 0) != 0:
        return [*grad.emit("BatchGatherGradient", [X, indices, dys[0]], of=[X], like=op), None]
    if args.bool("dense_gradient", False):
        return [*grad.emit("SparseToDense", [indices, dys[0], X], of=[X], like=op), None]
    return [Slices(indices, dys[0]), None]


@gradient_operator("BatchGather")
def batch_gather_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = BatchGatherGradient(X, indices, dY)."""
    X, indices = op.input
    return [*grad.emit("BatchGatherGradient", [X, indices, dys[0]], of=[X], like=op), None]
