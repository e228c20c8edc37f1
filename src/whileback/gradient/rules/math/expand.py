"""The gradient of `Expand`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("Expand")
def expand(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X broadcast to a shape, so dX is dY summed over the axes of that broadcast."""
    return op.unbroadcast(dY, required(node))
