"""Gradients of elementary functions of one variable: powers, exponential, trigonometric."""

from __future__ import annotations

import math

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import over, times
from whileback.gradient.rules.inputs import required


@rule("Reciprocal")
def reciprocal(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = 1/X, so dX = -dY·Y²."""
    return times(op, node, dY, op.Neg(_square(op, node.outputs[0])))


@rule("Sqrt")
def sqrt(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = √X, so dX = dY/(2·Y)."""
    return times(op, node, dY, op.Div(0.5, node.outputs[0]))


@rule("Exp")
def exp(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = exp(X), so dX = dY·Y."""
    return times(op, node, dY, node.outputs[0])


@rule("Log")
def log(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = log(X), so dX = dY/X."""
    return over(op, node, dY, required(node))


@rule("Erf")
def erf(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = erf(X), so dX = dY·2/√π·exp(-X²)."""
    bell = op.Exp(op.Neg(_square(op, required(node))))
    return times(op, node, dY, op.Mul(bell, 2 / math.sqrt(math.pi)))


@rule("Sin")
def sin(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = sin(X), so dX = dY·cos(X)."""
    return times(op, node, dY, op.Cos(required(node)))


@rule("Cos")
def cos(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = cos(X), so dX = -dY·sin(X)."""
    return times(op, node, dY, op.Neg(op.Sin(required(node))))


@rule("Tan")
def tan(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = tan(X), so dX = dY·(1 + Y²)."""
    return times(op, node, dY, op.Add(_square(op, node.outputs[0]), 1.0))


@rule("Asin")
def asin(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = asin(X), so dX = dY/√(1 - X²)."""
    return over(op, node, dY, op.Sqrt(op.Sub(1.0, _square(op, required(node)))))


@rule("Acos")
def acos(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = acos(X), so dX = -dY/√(1 - X²)."""
    return op.Neg(over(op, node, dY, op.Sqrt(op.Sub(1.0, _square(op, required(node))))))


@rule("Atan")
def atan(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = atan(X), so dX = dY/(1 + X²)."""
    return over(op, node, dY, op.Add(_square(op, required(node)), 1.0))


@rule("Sinh")
def sinh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = sinh(X), so dX = dY·cosh(X)."""
    return times(op, node, dY, op.Cosh(required(node)))


@rule("Cosh")
def cosh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = cosh(X), so dX = dY·sinh(X)."""
    return times(op, node, dY, op.Sinh(required(node)))


@rule("Asinh")
def asinh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = asinh(X), so dX = dY/√(X² + 1)."""
    return over(op, node, dY, op.Sqrt(op.Add(_square(op, required(node)), 1.0)))


@rule("Acosh")
def acosh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = acosh(X), so dX = dY/√(X² - 1)."""
    return over(op, node, dY, op.Sqrt(op.Sub(_square(op, required(node)), 1.0)))


@rule("Atanh")
def atanh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = atanh(X), so dX = dY/(1 - X²)."""
    return over(op, node, dY, op.Sub(1.0, _square(op, required(node))))


def _square(op: GradientBuilder, value: ir.Value) -> ir.Value:
    """Return the square, which FLOAT16 has no room for beyond 256, and digits near 1."""
    wide = op.widened(value)
    return op.Mul(wide, wide)
