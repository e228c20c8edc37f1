"""Gradient of dropout."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional
from whileback.gradient.rules.nn.outputs import extra_output
from whileback.graph.constants import known_ints

__all__ = ["dropped"]


@rule("Dropout")
def dropout(op: GradientBuilder, node: ir.Node, dY: ir.Value, dMask: None = None) -> ir.Value:
    """Y = X·mask/(1 - ratio) in training, else Y = X, so dX = dY·mask/(1 - ratio), or dY.

    The mask is the one that was drawn. No gradient reaches the ratio: a mask drawn with another
    one differs in whole elements.
    """
    if _training(node) == [0]:
        return dY
    return dropped(op, node, dY, extra_output(op, node, 1, ir.DataType.BOOL))


def dropped(op: GradientBuilder, node: ir.Node, X: ir.Value, mask: ir.Value) -> ir.Value:
    """Return what a node in training makes of a value with the mask that it drew before."""
    ratio = optional(node, 1)
    kept = op.constant(0.5, X.dtype) if ratio is None else op.Sub(1.0, op.cast(ratio, X))
    scale = op.Reciprocal(kept)
    if _training(node) is None:
        scale = op.Where(optional(node, 2), scale, op.constant(1, X.dtype))
    return op.Where(mask, op.Mul(X, scale), op.constant(0, X.dtype))


def _training(node: ir.Node) -> list[int] | None:
    """Return whether the node drops, None if only the run tells."""
    training = optional(node, 2)
    return [0] if training is None else known_ints(training)
