"""Gradient of dropout."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional
from whileback.gradient.rules.nn.outputs import extra_output
from whileback.graph.constants import known_ints


@rule("Dropout")
def dropout(op: GradientBuilder, node: ir.Node, dY: ir.Value, dMask: None = None) -> ir.Value:
    """Y = X·mask/(1 - ratio) in training, else Y = X, so dX = dY·mask/(1 - ratio), or dY.

    The mask is the one that was drawn. No gradient reaches the ratio: a mask drawn with another
    one differs in whole elements.
    """
    ratio, training = optional(node, 1), optional(node, 2)
    known = [0] if training is None else known_ints(training)
    if known == [0]:
        return dY
    kept = op.constant(0.5, dY.dtype) if ratio is None else op.Sub(1.0, op.cast(ratio, dY))
    scale = op.Reciprocal(kept)
    if known is None:
        scale = op.Where(training, scale, op.constant(1, dY.dtype))
    mask = extra_output(op, node, 1, ir.DataType.BOOL)
    return op.Where(mask, op.Mul(dY, scale), op.constant(0, dY.dtype))
