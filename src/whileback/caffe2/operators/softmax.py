"""Softmax, and the losses that it ends in."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_argument, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Softmax")
def softmax(op: Emitter, node: Operator) -> ir.Value:
    """Y = exp(X) / Σ exp(X), the sum over all axes from `axis` on."""
    X = node.tensors(1)[0]
    return op.reshape(op.Softmax(matrix(op, X, axis_argument(node, X)), axis=-1), X)


@lowering("SoftmaxGradient")
def softmax_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = Y·(dY - Σ dY·Y), the sum as in Softmax."""
    Y, dY = node.tensors(2)
    axis = axis_argument(node, Y)
    y, dy = matrix(op, Y, axis), matrix(op, dY, axis)
    total = op.ReduceSum(op.Mul(dy, y), [1], keepdims=1)
    return op.reshape(op.Mul(op.Sub(dy, total), y), Y)


@gradient_operator("Softmax")
def softmax_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = SoftmaxGradient(Y, dY)."""
    return grad.emit("SoftmaxGradient", [op.output[0], dys[0]], of=op.input, like=op)
