"""Gradients of operators that make tensors out of numbers."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule


@rule("Range")
def range_(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> tuple[ir.Value, None, ir.Value]:
    """Yₖ = start + k·delta, so d start = Σ dYₖ and d delta = Σ k·dYₖ; the limit only ends it."""
    wide, total = op.widened(dY), op.ReduceSum(dY, keepdims=0)
    count = op.cast(op.Range(0, op.Size(dY), 1), wide)
    return total, None, op.cast(op.ReduceSum(op.Mul(wide, count), keepdims=0), dY)
