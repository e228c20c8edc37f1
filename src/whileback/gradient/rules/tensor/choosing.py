"""Gradients of operators that choose elements by a condition."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.graph.shapes import NARROW


@rule("Where")
def where(
    op: GradientBuilder, node: ir.Node, dY: ir.Value
) -> tuple[None, ir.Value | None, ir.Value | None]:
    """Y is A where the condition holds, else B; dA and dB are dY there and zero elsewhere."""
    condition, A, B = required(node), required(node, 1), required(node, 2)
    zero = op.constant(0, dY.dtype)
    dA = op.unbroadcast(op.Where(condition, dY, zero), A) if A in op.active else None
    dB = op.unbroadcast(op.Where(condition, zero, dY), B) if B in op.active else None
    return None, dA, dB


@rule("Trilu")
def trilu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is a triangle of X amid zeros, so dX is the same triangle of dY."""
    return op.Trilu(dY, *node.inputs[1:], upper=node.attributes.get_int("upper", 1))


@rule("Cast", "CastLike", narrow=True)
def cast(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X in another float type, so dX is dY in the type of X; integers pass nothing on.

    But for those which something was rounded to, whose cotangents are FLOAT.
    """
    X = required(node)
    return op.cast(dY, ir.DataType.FLOAT if X.dtype in NARROW else X)


@rule("OneHot")
def one_hot(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> tuple[None, None, ir.Value]:
    """Y is values[1] at the indices along an axis, else values[0]: both get the sum of dY there."""
    indices, depth = required(node), required(node, 1)
    whole = int(ir.DataType.INT64)
    # Integers, since ONNX Runtime has no kernel for DOUBLE, nor for all types of the indices.
    hot = op.OneHot(
        op.Cast(indices, to=whole),
        op.Cast(depth, to=whole),
        [0, 1],
        axis=node.attributes.get_int("axis", -1),
    )
    chosen, zero = op.Cast(hot, to=int(ir.DataType.BOOL)), op.constant(0, dY.dtype)
    off = op.ReduceSum(op.Where(chosen, zero, dY), keepdims=0)
    on = op.ReduceSum(op.Where(chosen, dY, zero), keepdims=0)
    return None, None, op.Concat(op.Unsqueeze(off, [0]), op.Unsqueeze(on, [0]), axis=0)
