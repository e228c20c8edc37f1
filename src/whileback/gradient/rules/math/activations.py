"""Gradients of elementwise activation functions."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule


@rule("Tanh")
def tanh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = tanh(X), so dX = dY·(1 - Y²)."""
    Y = node.outputs[0]
    return op.Mul(dY, op.Sub(1.0, op.Mul(Y, Y)))
