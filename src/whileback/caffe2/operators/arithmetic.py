"""Arithmetic of two tensors, with Caffe2's old and new rules of broadcasting."""

from __future__ import annotations

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

import onnx_ir as ir


@lowering("Mul")
def mul(op: Emitter, node: Operator) -> ir.Value:
    """C = A·B."""
    A, B = node.inputs
    return op.Mul(A, B)


@lowering("MulGradient")
def mul_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of A and B, from dC, A and B."""
    dC, A, B = node.inputs[:3]
    return op.pullback(lambda op, A, B: op.Mul(A, B), [A, B], [dC])


@gradient_operator("Mul")
def mul_maker(grad: Gradients, op: OperatorDef, dys: list[str]) -> list[str]:
    """dA, dB = MulGradient(dC, A, B)."""
    A, B = op.input
    return grad.emit("MulGradient", [dys[0], A, B], of=[A, B], like=op)
