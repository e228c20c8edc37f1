"""The gradient of `Shrink`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("Shrink")
def shrink(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X moved towards 0 by the bias where |X| > λ, else 0, so dX = dY where |X| > λ."""
    limit = node.attributes.get_float("lambd", 0.5)
    return op.Where(op.Greater(op.Abs(required(node)), limit), dY, 0.0)
