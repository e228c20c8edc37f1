"""Arithmetic of two tensors."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.broadcasting import axes_behind, axes_from, behind, operands
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Add", "Sub", "Mul", "Div")
def arithmetic(op: Emitter, node: Operator) -> ir.Value:
    """C = A + B, A - B, A·B or A/B."""
    return op.emit(node.type, operands(op, node))[0]


@lowering("AddGradient", "SubGradient", "MulGradient")
def arithmetic_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of A and B, each of its own shape, from dC, A and B."""
    dC, A, B = node.tensors(3)
    axes, forward = axes_behind(node, A, B), node.type.removesuffix("Gradient")
    return op.pullback(lambda op, A, B: op.emit(forward, [A, behind(op, B, axes)])[0], [A, B], [dC])


@lowering("DivGradient")
def div_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dA = dC/B and dB = -dC·C/B, each of its own shape; from dC, A, B, C or just B, C, dC."""
    if len(node.inputs) == 3:
        B, C, dC = node.tensors(3)
        A = C
    else:
        dC, A, B, C = node.tensors(4)
    divisor = behind(op, B, axes_behind(node, A, B))
    dA = op.Div(dC, divisor)
    dB = op.unbroadcast(op.Neg(op.Mul(dA, C)), divisor)
    return [op.unbroadcast(dA, A), op.reshape(dB, B)]


@gradient_operator("Add", "Sub", "Mul")
def arithmetic_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dA, dB = XGradient(dC, A, B)."""
    A, B = op.input
    return grad.emit(f"{op.type}Gradient", [dys[0], A, B], of=[A, B], like=op)


@gradient_operator("Div")
def div_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dA, dB = DivGradient(dC, A, B, C)."""
    A, B = op.input
    return grad.emit("DivGradient", [dys[0], A, B, op.output[0]], of=[A, B], like=op)


@lowering("SumReduceLike")
def sum_reduce_like(op: Emitter, node: Operator) -> ir.Value:
    """C = A summed over the axes along which B, were it an operand, would be broadcast."""
    A, B = node.tensors(2)
    C = op.unbroadcast(A, behind(op, B, axes_from(node, A, B)))
    return op.reshape(C, B)


@gradient_operator("SumReduceLike")
def sum_reduce_like_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dA = dC laid along A; of B only the shape matters."""
    A, args = op.input[0], Arguments(op)
    ones = grad.add("ConstantFill", [A], f"{A}_ones", value=1.0)
    layout = {
        "broadcast": 1,
        "axis": args.int("axis", -1),
        "axis_str": args.string("axis_str", ""),
        "order": args.string("order", "NCHW"),
    }
    return [grad.add("Mul", [ones, dys[0]], f"{A}_grad", **layout), None]
