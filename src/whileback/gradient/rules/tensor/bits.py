"""The gradient of `BitCast`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("BitCast")
def bit_cast(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value | None:
    """Y is what the bits of X mean in another type: no gradient flows; in the same type dX = dY."""
    return dY if required(node).dtype == node.outputs[0].dtype else None
