"""Gradients of operators on optionals: the cotangent of an optional is that of its content."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule


@rule("Optional", "OptionalGetElement", narrow=True)
def optional(op: GradientBuilder, node: ir.Node, dO: ir.Value) -> ir.Value:
    """O holds X, so dX = dO."""
    return dO
