"""The gradient of `Flatten`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("Flatten")
def flatten(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X as a matrix, so dX is dY in the shape of X."""
    return op.reshape(dY, required(node))
