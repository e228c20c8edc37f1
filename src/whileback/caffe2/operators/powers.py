"""Powers, with an exponent that is an argument or a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.broadcasting import operands
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Pow")
def power(op: Emitter, node: Operator) -> ir.Value:
    """Y = X^E, where E is the second input or the argument `exponent`."""
    if len(node.inputs) == 2:
        return op.Pow(*operands(op, node))
    return op.Pow(*node.tensors(1), node.args.float("exponent"))


@gradient_operator("Pow")
def power_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = dY·E·X^(E-1) and dE = dY·Y·log X, each of its own shape."""
    if len(op.input) == 1:
        return [_constant_power(grad, op, dys[0], Arguments(op).float("exponent"))]
    return _tensor_power(grad, op, dys[0])


def _constant_power(grad: Gradients, op: OperatorDef, dY: str, exponent: float) -> str | None:
    """Return dX for an exponent that is an argument, with as few powers as it needs."""
    X = op.input[0]
    if exponent in (0, 1):
        return dY if exponent else None
    power = X if exponent == 2 else grad.add("Pow", [X], f"{X}_power", exponent=exponent - 1)
    product = grad.add("Mul", [power, dY], f"{X}_product")
    return grad.add("Scale", [product], f"{X}_grad", scale=exponent)


def _tensor_power(grad: Gradients, op: OperatorDef, dY: str) -> list[str | None]:
    """Return dX and dE for an exponent that is a tensor."""
    X, E, Y = *op.input, op.output[0]
    one = grad.add("ConstantFill", [E], f"{E}_one", value=1.0)
    less = grad.add("Sub", [E, one], f"{E}_less")
    (power,) = grad.emit("Pow", [X, less], of=[f"{X}_power"], like=op)
    (slope,) = grad.emit("Mul", [power, E], of=[f"{X}_slope"], like=op)
    dX = grad.add("Mul", [slope, dY], f"{X}_grad")
    logarithm = grad.add("Log", [X], f"{X}_log")
    share = grad.add("Mul", [Y, dY], f"{E}_share")
    product = grad.add("Mul", [share, logarithm], f"{E}_product")
    _, dE = grad.emit("AddGradient", [product, X, E], of=[X, E], like=op)
    return [dX, dE]
