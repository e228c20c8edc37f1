"""Gradients of operators that only move elements: identity, shapes, axes."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule


@rule("Identity")
def identity(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X, so dX = dY."""
    return dY
