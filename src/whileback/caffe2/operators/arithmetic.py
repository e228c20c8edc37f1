"""Arithmetic of two tensors, and multiples of one."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.broadcasting import axes_behind, behind, operands
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Add", "Sub", "Mul", "Div")
def arithmetic(op: Emitter, node: Operator) -> ir.Value:
    """C = A + B, A - B, A·B or A/B."""
    return op.emit(node.type, operands(op, node))[0]


@lowering("AddGradient", "SubGradient", "MulGradient", "DivGradient")
def arithmetic_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of A and B, each of its own shape, from dC, A and B."""
    dC, A, B = node.tensors(3)
    axes, forward = axes_behind(node, A, B), node.type.removesuffix("Gradient")
    return op.pullback(lambda op, A, B: op.emit(forward, [A, behind(op, B, axes)])[0], [A, B], [dC])


@gradient_operator("Add", "Sub", "Mul")
def arithmetic_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dA, dB = XGradient(dC, A, B)."""
    A, B = op.input
    return grad.emit(f"{op.type}Gradient", [dys[0], A, B], of=[A, B], like=op)


@gradient_operator("Div")
def div_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dA, dB = DivGradient(dC, A, B, C), which are dC/B and -dC·C/B."""
    A, B = op.input
    return grad.emit("DivGradient", [dys[0], A, B, op.output[0]], of=[A, B], like=op)


@lowering("Negative")
def negative(op: Emitter, node: Operator) -> ir.Value:
    """Y = -X."""
    return op.Neg(*node.tensors(1))


@gradient_operator("Negative", "Scale")
def linear_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """The operator itself, applied to dY: it is linear, and its own transpose."""
    return grad.emit(op.type, dys, of=op.input, like=op)


@lowering("Scale")
def scale(op: Emitter, node: Operator) -> ir.Value:
    """Y = scale·X."""
    return op.Mul(*node.tensors(1), node.args.float("scale", 1.0))


@lowering("Sum")
def sum_(op: Emitter, node: Operator) -> ir.Value | None:
    """Y = X1 + X2 + …"""
    return op.add(*node.tensors(len(node.inputs)))


@gradient_operator("Sum")
def sum_maker(_: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """Every input's gradient is dY."""
    return [dys[0]] * len(op.input)
