"""Gradients of operators that give the same elements another shape or order of axes."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import not_differentiable, rule
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.constants import known_ints


@rule("Identity")
def identity(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X, so dX = dY."""
    return dY


@rule("whileback::NegateGradient")
def negate_gradient(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X, but dX = -dY: an `Identity` that says in its metadata that it stands for this."""
    return op.Neg(dY)


not_differentiable(
    "it is there to stop the gradient: an `Identity` that says in its metadata that it stands for "
    "this",
    "whileback::StopGradient",
)


@rule("Reshape")
def reshape(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X in another shape, so dX is dY in the shape of X."""
    return op.reshape(dY, required(node))


@rule("Squeeze")
def squeeze(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X without some axes of size 1, so dX is dY with them.

    Axes that only the run tells may be none: ONNX Runtime 1.32 takes that for all of size 1.
    """
    axes = optional(node, 1)
    return op.Unsqueeze(dY, axes) if known_ints(axes) else op.reshape(dY, required(node))


@rule("Unsqueeze")
def unsqueeze(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X with more axes of size 1: dX is dY without them; for run-time axes see `squeeze`."""
    axes = required(node, 1)
    return op.Squeeze(dY, axes) if known_ints(axes) else op.reshape(dY, required(node))


@rule("Transpose")
def transpose(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X with its axes permuted, so dX is dY with its axes permuted back."""
    perm = node.attributes.get_ints("perm")
    if perm is None:
        return op.Transpose(dY)
    return op.Transpose(dY, perm=sorted(range(len(perm)), key=perm.__getitem__))
