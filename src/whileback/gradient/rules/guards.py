"""Keeping the zeros of what was not chosen away from infinite slopes."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder

__all__ = ["guarded"]


def guarded(
    op: GradientBuilder, node: ir.Node, dY: ir.Value, value: ir.Value, instead: float = 1.0
) -> ir.Value:
    """Return the value that a slope is computed from, with `instead` where the cotangent is 0.

    Only needed, and only done, where the output of the node is masked; `instead` must be a number
    at which the slope and its own slopes are finite.
    """
    if node.outputs[0] not in op.masked:
        return value
    return op.Where(op.Cast(dY, to=int(ir.DataType.BOOL)), value, instead)
