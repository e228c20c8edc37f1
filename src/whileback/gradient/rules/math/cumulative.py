"""Gradients of sums and products along an axis, step by step."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("CumSum")
def cum_sum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y_i = Σ X_j over j ≤ i, so dX_j = Σ dY_i over i ≥ j: the same sum in the other direction."""
    return _sum_back(op, node, dY)


@rule("CumProd")
def cum_prod(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y_i = Π X_j over j ≤ i, so dX_j = Σ dY_i·Y_i/X_j over i ≥ j; of a zero, Y_i without it.

    Exact for any number of zeros, and so is its own gradient: without one of two zeros, a product
    is written as that of the rest times the other zero. Third derivatives miss triples of zeros.
    """
    X = required(node)
    zero = op.Equal(X, op.constant(0.0, X.dtype))
    others = op.Where(zero, 1.0, X)
    rest = _cumulate(op, node, "CumProd", others)
    count = _cumulate(op, node, "CumSum", op.Cast(zero, to=int(ir.DataType.INT64)))
    zeros = _cumulate(op, node, "CumSum", op.Where(zero, X, 0.0))
    one, two = op.Mul(dY, rest), op.Where(op.Equal(count, 2), op.Mul(dY, rest), 0.0)
    single = op.Where(op.Equal(count, 1), one, op.Mul(two, zeros))
    at_zero = op.Sub(_sum_back(op, node, single), op.Mul(_sum_back(op, node, two), X))
    elsewhere = op.Div(_sum_back(op, node, op.Mul(dY, node.outputs[0])), others)
    return op.Where(zero, at_zero, elsewhere)


def _cumulate(op: GradientBuilder, node: ir.Node, op_type: str, value: ir.Value) -> ir.Value:
    """Sum or multiply as the node does."""
    given = {name: node.attributes.get_int(name, 0) for name in ("exclusive", "reverse")}
    return op.emit(op_type, [value, required(node, 1)], given)[0]


def _sum_back(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Give each element the sum over the results that it is part of."""
    exclusive = node.attributes.get_int("exclusive", 0)
    reverse = node.attributes.get_int("reverse", 0)
    return op.CumSum(dY, required(node, 1), exclusive=exclusive, reverse=1 - reverse)
