"""Softmax."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_argument, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Softmax")
def softmax(op: Emitter, node: Operator) -> ir.Value:
    """P = exp(X) / Σ exp(X), the sum over all axes from `axis` on."""
    (X,) = node.tensors(1)
    return op.reshape(op.Softmax(matrix(op, X, axis_argument(node, X)), axis=-1), X)


@lowering("SoftmaxGradient")
def softmax_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = P·(dP - Σ dP·P), the sum as in Softmax."""
    P, dP = node.tensors(2)
    axis = axis_argument(node, P)
    p, dp = matrix(op, P, axis), matrix(op, dP, axis)
    total = op.ReduceSum(op.Mul(dp, p), [1], keepdims=1)
    return op.reshape(op.Mul(op.Sub(dp, total), p), P)


@gradient_operator("Softmax")
def softmax_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = SoftmaxGradient(P, dP)."""
    return grad.emit("SoftmaxGradient", [op.output[0], dys[0]], of=op.input, like=op)
