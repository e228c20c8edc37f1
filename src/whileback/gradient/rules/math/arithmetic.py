"""Gradients of elementwise arithmetic."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import over, times
from whileback.gradient.rules.inputs import required

Pair = tuple[ir.Value | None, ir.Value | None]


@rule("Add")
def add(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A + B, so dA = dC and dB = dC, each summed back to its own shape."""
    A, B = required(node, 0), required(node, 1)
    dA = op.unbroadcast(dC, A) if A in op.active else None
    dB = op.unbroadcast(dC, B) if B in op.active else None
    return dA, dB


@rule("Sub")
def sub(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A - B, so dA = dC and dB = -dC, each summed back to its own shape."""
    A, B = required(node, 0), required(node, 1)
    dA = op.unbroadcast(dC, A) if A in op.active else None
    dB = op.Neg(op.unbroadcast(dC, B)) if B in op.active else None
    return dA, dB


@rule("Mul")
def mul(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A·B, so dA = dC·B and dB = dC·A, each summed back to its own shape."""
    A, B = required(node, 0), required(node, 1)
    dA = _times(op, node, dC, B, A) if A in op.active else None
    dB = _times(op, node, dC, A, B) if B in op.active else None
    return dA, dB


def _times(
    op: GradientBuilder, node: ir.Node, dC: ir.Value, factor: ir.Value, like: ir.Value
) -> ir.Value:
    return op.unbroadcast(times(op, node, dC, factor), like)


@rule("Div")
def div(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A/B, so dA = dC/B and dB = -dC·C/B, each summed back to its own shape."""
    A, B = required(node, 0), required(node, 1)
    scaled = over(op, node, dC, B)
    dA = op.unbroadcast(scaled, A) if A in op.active else None
    if B not in op.active:
        return dA, None
    return dA, op.Neg(_times(op, node, scaled, node.outputs[0], B))


@rule("Neg")
def neg(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = -X, so dX = -dY."""
    return op.Neg(dY)


@rule("Abs")
def absolute(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = |X|, so dX = dY·sign(X); at 0 it is 0."""
    return op.Mul(dY, op.Sign(required(node)))


@rule("Mod")
def mod(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A - B·trunc(A/B), so dA = dC and dB = -dC·trunc(A/B), summed back; as if never at a jump.

    (A - C)/B is that whole number, up to rounding.
    """
    A, B = required(node, 0), required(node, 1)
    dA = op.unbroadcast(dC, A) if A in op.active else None
    if B not in op.active:
        return dA, None
    count = op.Round(op.Div(op.Sub(A, node.outputs[0]), B))
    return dA, op.Neg(_times(op, node, dC, count, B))


@rule("Sum")
def variadic_sum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> list[ir.Value | None]:
    """Y = A + B + …, so each gets dY, summed back to its own shape."""
    return _to_each(op, node, dY)


@rule("Mean")
def variadic_mean(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> list[ir.Value | None]:
    """Y = (A + B + …)/n, so each gets dY/n, summed back to its own shape."""
    return _to_each(op, node, op.Div(dY, float(len(node.inputs))))


def _to_each(op: GradientBuilder, node: ir.Node, share: ir.Value) -> list[ir.Value | None]:
    return [
        op.unbroadcast(share, X) if X is not None and X in op.active else None for X in node.inputs
    ]
