"""The gradient of `TopK`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("TopK")
def top_k(
    op: GradientBuilder, node: ir.Node, dY: ir.Value | None, dI: ir.Value | None = None
) -> ir.Value | None:
    """Y = X at the positions I along the axis, so dX is dY at these positions and 0 elsewhere."""
    if dY is None:
        return None
    zeros = op.zeros_like(required(node))
    axis = node.attributes.get_int("axis", -1)
    return op.ScatterElements(zeros, node.outputs[1], dY, axis=axis)
