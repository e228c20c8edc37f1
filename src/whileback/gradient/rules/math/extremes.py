"""Gradients of operators that choose among their inputs: the largest, the smallest, a limit."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import kept, over
from whileback.gradient.rules.inputs import optional, required


@rule("Max", "Min")
def extreme(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> list[ir.Value | None]:
    """Y is the largest (smallest) of the inputs, so dY goes to it; equal ones share it equally."""
    inputs = [value for value in node.inputs if value is not None]
    if len(inputs) == 1:
        return [dY]
    chosen = [op.cast(op.Equal(X, node.outputs[0]), dY) for X in inputs]
    share = over(op, node, dY, op.Sum(*chosen))
    return [
        op.unbroadcast(op.Mul(share, mask), X) if X in op.active else None
        for X, mask in zip(inputs, chosen, strict=True)
    ]


@rule("Clip")
def clip(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> tuple[ir.Value | None, ...]:
    """Y = min(max(X, low), high): dX = dY where low ≤ X ≤ high, else the limit gets it.

    At a limit X gets it; where low > high, `high` gets everything.
    """
    X, low, high = required(node), optional(node, 1), optional(node, 2)
    dX = dlow = dhigh = None
    above = None if low is None else op.GreaterOrEqual(X, low)
    below = None if high is None else op.LessOrEqual(X, high)
    if X in op.active:
        inside = op.And(above, below) if above and below else above or below
        dX = dY if inside is None else kept(op, inside, dY)
    if low is not None and low in op.active:
        used = (
            op.Less(X, low) if high is None else op.And(op.Less(X, low), op.LessOrEqual(low, high))
        )
        dlow = op.unbroadcast(kept(op, used, dY), low)
    if high is not None and high in op.active:
        used = (
            op.Greater(X, high)
            if low is None
            else op.Or(op.Greater(X, high), op.Greater(low, high))
        )
        dhigh = op.unbroadcast(kept(op, used, dY), high)
    return dX, dlow, dhigh
