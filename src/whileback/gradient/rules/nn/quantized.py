"""Gradients of convolutions of whole numbers, and of what rounds them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.quantization.scaling import in_units, out_of_units, wide
from whileback.gradient.straight_through import unrounded
from whileback.graph.builder import Builder


@rule("ConvInteger", narrow=True)
@unrounded
def conv_integer(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    W: ir.Value,
    x_zero_point: ir.Value | None = None,
    w_zero_point: ir.Value | None = None,
) -> ir.Value:
    """Y = (X - zₓ) * (W - z_w), whole numbers that are not rounded."""
    one = op.constant(1, wide(op, X).dtype)
    scale = one if w_zero_point is None else op.expand(one, w_zero_point)
    filters = out_of_units(op, W, scale, w_zero_point, axis=0)
    return op.Conv(out_of_units(op, X, one, x_zero_point, axis=0), filters, **_attributes(node))


@rule("QLinearConv", rounds=True)
@unrounded
def q_linear_conv(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    x_scale: ir.Value,
    x_zero_point: ir.Value,
    W: ir.Value,
    w_scale: ir.Value,
    w_zero_point: ir.Value,
    y_scale: ir.Value,
    y_zero_point: ir.Value,
    B: ir.Value | None = None,
) -> ir.Value:
    """Y = clip((sₓ(X - zₓ) * s_w(W - z_w) + sₓ·s_w·B)/s + z), where W has scales by filters."""
    data = out_of_units(op, X, x_scale, x_zero_point, axis=0)
    product = filtered(op, node, data)
    dtype = y_zero_point.dtype or ir.DataType.UINT8
    return in_units(op, product, y_scale, y_zero_point, dtype, axis=0)


def filtered(op: Builder, node: ir.Node, data: ir.Value) -> ir.Value:
    """Return the floats that a `QLinearConv` makes of its data as floats."""
    x_scale, W, w_scale, w_zero_point = (required(node, index) for index in (1, 3, 4, 5))
    filters = out_of_units(op, W, w_scale, w_zero_point, axis=0)
    B = optional(node, 8)
    bias = None if B is None else out_of_units(op, B, op.Mul(x_scale, w_scale), None, axis=0)
    return op.Conv(data, filters, bias, **_attributes(node))


def _attributes(node: ir.Node) -> dict[str, Any]:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return {name: node.attributes[name].value for name in names if name in node.attributes}
