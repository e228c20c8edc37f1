"""Elementwise functions of one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Exp")
def exp(op: Emitter, node: Operator) -> ir.Value:
    """Y = exp X."""
    return op.Exp(*node.tensors(1))


@gradient_operator("Exp")
def exp_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = dY·Y."""
    return grad.add("Mul", [op.output[0], dys[0]], f"{op.input[0]}_grad")


@lowering("Sqr")
def sqr(op: Emitter, node: Operator) -> ir.Value:
    """Y = X²."""
    X = node.tensors(1)[0]
    return op.Mul(X, X)


@gradient_operator("Sqr")
def sqr_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = 2·X·dY."""
    half = grad.add("Mul", [dys[0], op.input[0]], f"{op.output[0]}_half")
    return grad.add("Scale", [half], f"{op.input[0]}_grad", scale=2.0)
