"""Gradients of products of whole numbers, and of what rounds them."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.registry import rule
from whileback.gradient.rules.quantization.scaling import in_units, out_of_units, wide
from whileback.gradient.straight_through import unrounded
from whileback.graph.builder import Builder
from whileback.graph.shapes import rank


@rule("MatMulInteger", narrow=True)
@unrounded
def mat_mul_integer(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    B: ir.Value,
    a_zero_point: ir.Value | None = None,
    b_zero_point: ir.Value | None = None,
) -> ir.Value:
    """Y = (A - zₐ)·(B - z_b), whole numbers that are not rounded."""
    left = _shifted(op, A, a_zero_point, rows=True)
    return op.MatMul(left, _shifted(op, B, b_zero_point, rows=False))


@rule("QLinearMatMul", rounds=True)
@unrounded
def q_linear_mat_mul(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    a_scale: ir.Value,
    a_zero_point: ir.Value,
    B: ir.Value,
    b_scale: ir.Value,
    b_zero_point: ir.Value,
    y_scale: ir.Value,
    y_zero_point: ir.Value,
) -> ir.Value:
    """Y = clip(sₐ(A - zₐ)·s_b(B - z_b)/s + z); scales are for all, for rows of A, columns of B."""
    left = out_of_units(op, A, a_scale, a_zero_point, _list_axis(a_scale, -2))
    right = out_of_units(op, B, b_scale, b_zero_point, _list_axis(b_scale, -1))
    dtype = y_zero_point.dtype or ir.DataType.UINT8
    product = op.MatMul(left, right)
    return in_units(op, product, y_scale, y_zero_point, dtype, _list_axis(y_scale, -2))


def _shifted(op: Builder, X: ir.Value, zero_point: ir.Value | None, *, rows: bool) -> ir.Value:
    if zero_point is None:
        return wide(op, X)
    shift = wide(op, zero_point)
    if rows and rank(zero_point) == 1 and rank(X) != 1:
        shift = op.Unsqueeze(shift, [-1])
    return op.Sub(wide(op, X), shift)


def _list_axis(scale: ir.Value, axis: int) -> int | None:
    """Return the axis that a list of scales is for; several axes of them are broadcast."""
    count = rank(scale)
    return None if count is not None and count > 1 else axis
