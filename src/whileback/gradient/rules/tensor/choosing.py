"""Gradients of operators that choose elements by a condition."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.tensor.views import first_input


@rule("Where")
def where(
    op: GradientBuilder, node: ir.Node, dY: ir.Value
) -> tuple[None, ir.Value | None, ir.Value | None]:
    """Y is A where the condition holds, else B; dA and dB are dY there and zero elsewhere."""
    condition, A, B = node.inputs
    assert condition is not None and A is not None and B is not None
    zero = op.constant(0, dY.dtype)
    dA = op.unbroadcast(op.Where(condition, dY, zero), A) if A in op.active else None
    dB = op.unbroadcast(op.Where(condition, zero, dY), B) if B in op.active else None
    return None, dA, dB


@rule("Trilu")
def trilu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is a triangle of X amid zeros, so dX is the same triangle of dY."""
    return op.Trilu(dY, *node.inputs[1:], upper=node.attributes.get_int("upper", 1))


@rule("Cast", "CastLike")
def cast(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X in another float type, so dX is dY in the type of X; integers pass nothing on."""
    X = first_input(node)
    if X.dtype is None:
        return op.CastLike(dY, X)
    return dY if X.dtype == dY.dtype else op.Cast(dY, to=int(X.dtype))
