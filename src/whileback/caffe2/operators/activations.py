"""Activation functions."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@gradient_operator("Relu", "Sigmoid", "Tanh")
def activation_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = XGradient(Y, dY): the slope can be told from the result."""
    return grad.emit(f"{op.type}Gradient", [op.output[0], dys[0]], of=op.input, like=op)


@lowering("Relu", "Sigmoid", "Tanh")
def activation(op: Emitter, node: Operator) -> ir.Value:
    """Y = max(X, 0), 1/(1 + exp(-X)) or tanh X."""
    return op.emit(node.type, node.tensors(1))[0]


@lowering("ReluGradient")
def relu_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where Y > 0, else 0."""
    Y, dY = node.tensors(2)
    return op.Where(op.Greater(Y, 0.0), dY, 0.0)


@lowering("SigmoidGradient")
def sigmoid_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·Y·(1 - Y)."""
    Y, dY = node.tensors(2)
    return op.Mul(dY, op.Mul(Y, op.Sub(1.0, Y)))


@lowering("TanhGradient")
def tanh_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·(1 - Y²)."""
    Y, dY = node.tensors(2)
    return op.Mul(dY, op.Sub(1.0, op.Mul(Y, Y)))
