"""Gradients of quantising and its inverse."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.registry import rule
from whileback.gradient.rules.quantization.scaling import in_units, out_of_units, wide
from whileback.gradient.straight_through import unrounded
from whileback.graph.builder import Builder


@rule("QuantizeLinear", "com.microsoft::QuantizeLinear", rounds=True)
@unrounded
def quantize_linear(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    scale: ir.Value,
    zero_point: ir.Value | None = None,
) -> ir.Value:
    """Y = clip(X/s + z), so dX = dY/s and ds = -Σ dY·X/s² inside of the range, 0 outside.

    With `DequantizeLinear` behind it that is the gradient that LSQ (Esser et al. 2020) gives to
    the scale. The zero point is a whole number and gets none.
    """
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    return in_units(op, X, scale, zero_point, _type(node), axis, block)


@rule("DequantizeLinear", "com.microsoft::DequantizeLinear", narrow=True)
@unrounded
def dequantize_linear(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    scale: ir.Value,
    zero_point: ir.Value | None = None,
) -> ir.Value:
    """Y = (X - z)·s, so dX = dY·s and ds = Σ dY·(X - z)."""
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    Y = out_of_units(op, X, scale, zero_point, axis, block)
    return op.cast(Y, node.outputs[0])


@rule("DynamicQuantizeLinear", rounds=True)
@unrounded
def dynamic_quantize_linear(op: Builder, node: ir.Node, X: ir.Value) -> tuple[ir.Value, None, None]:
    """Y = X/s + z, so dX = dY/s.

    The scale and the zero point, which are chosen so that all of X is inside of the range, count
    as constants, as in quantisation-aware training.
    """
    _, scale, zero_point = node.outputs
    return op.Add(op.Div(X, wide(op, scale)), wide(op, zero_point)), None, None


def _type(node: ir.Node) -> ir.DataType:
    """Return the type that a node rounds to."""
    return node.outputs[0].dtype or ir.DataType.UINT8
