"""Gradients of softmax and its logarithm."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import times


@rule("Softmax")
def softmax(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = exp(X)/Σ exp(X), so dX = Y·(dY - Σ dY·Y), sums along the axis."""
    Y = node.outputs[0]
    total = op.ReduceSum(times(op, node, dY, Y), [node.attributes.get_int("axis", -1)])
    return times(op, node, op.Sub(dY, total), Y)


@rule("LogSoftmax")
def log_softmax(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X - log Σ exp(X), so dX = dY - exp(Y)·Σ dY, the sum along the axis."""
    total = op.ReduceSum(dY, [node.attributes.get_int("axis", -1)])
    return op.Sub(dY, times(op, node, total, op.Exp(node.outputs[0])))
