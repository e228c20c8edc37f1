"""Gradients of reductions."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule


@rule("ReduceSum")
def reduce_sum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = Σ X over the axes, so dX is dY, spread over the axes."""
    X = node.inputs[0]
    assert X is not None
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if not node.attributes.get_int("keepdims", 1) and axes is not None:
        dY = op.Unsqueeze(dY, axes)
    return op.expand(dY, X)
