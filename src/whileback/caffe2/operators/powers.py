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
def power_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> Sequence[str | None]:
    """dX = dY·E·X^(E-1) and dE = dY·Y·log X, each of its own shape; dE is NaN where X < 0."""
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


def _tensor_power(grad: Gradients, op: OperatorDef, dY: str) -> list[str]:
    """Return dX and dE for an exponent that is a tensor; no 0·∞ becomes NaN where X = 0."""
    X, E = op.input
    (power,) = grad.emit("Pow", [X, _one_less(grad, E)], of=[f"{X}_power"], like=op)
    (slope,) = grad.emit("Mul", [power, E], of=[f"{X}_slope"], like=op)
    dX = grad.add("Mul", [slope, dY], f"{X}_grad")
    share = grad.add("Mul", [op.output[0], dY], f"{E}_share")
    product = grad.add("Mul", [share, _logarithm(grad, X)], f"{E}_product")
    _, dE = grad.emit("AddGradient", [product, X, E], of=[X, E], like=op)
    return [dX, dE]


def _one_less(grad: Gradients, E: str) -> str:
    """Return E - 1, and 0 where E = 0: X^0 is multiplied by 0 then."""
    one = grad.add("ConstantFill", [E], f"{E}_one", value=1.0)
    zero = grad.zeros_like(E)
    less = grad.add("Sub", [E, one], f"{E}_less")
    settled = grad.add("EQ", [E, zero], f"{E}_settled")
    return grad.add("Where", [settled, zero, less], f"{E}_exponent")


def _logarithm(grad: Gradients, X: str) -> str:
    """Return log X, and 0 where X = 0: it is multiplied by 0 then."""
    one = grad.add("ConstantFill", [X], f"{X}_one", value=1.0)
    at_zero = grad.add("EQ", [X, grad.zeros_like(X)], f"{X}_at_zero")
    base = grad.add("Where", [at_zero, one, X], f"{X}_base")
    return grad.add("Log", [base], f"{X}_log")
