"""Gradients of sums along an axis, step by step."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("CumSum")
def cum_sum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y_i = Σ X_j over j ≤ i, so dX_j = Σ dY_i over i ≥ j: the same sum in the other direction."""
    exclusive = node.attributes.get_int("exclusive", 0)
    reverse = node.attributes.get_int("reverse", 0)
    return op.CumSum(dY, required(node, 1), exclusive=exclusive, reverse=1 - reverse)
