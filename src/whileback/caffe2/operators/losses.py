"""Losses: one number, or one for each example."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import size


def mean(op: Emitter, X: ir.Value) -> ir.Value:
    """Return the mean of all elements, 0 of none."""
    if size(X):
        return op.ReduceMean(X, keepdims=0)
    count = op.cast(op.Max(op.Size(X), 1), X)
    return op.Div(op.ReduceSum(X, keepdims=0), count)


@lowering("AveragedLoss")
def averaged_loss(op: Emitter, node: Operator) -> ir.Value:
    """loss = mean of X."""
    return mean(op, node.tensors(1)[0])


@lowering("AveragedLossGradient")
def averaged_loss_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dloss / number of elements, everywhere."""
    X, dloss = node.tensors(2)
    return op.pullback(mean, [X], [dloss])


@gradient_operator("AveragedLoss")
def averaged_loss_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = AveragedLossGradient(X, dloss)."""
    return grad.emit("AveragedLossGradient", [op.input[0], dys[0]], of=op.input, like=op)
