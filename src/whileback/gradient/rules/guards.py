"""Keeping the zeros of what was not chosen away from infinite slopes.

Only needed, and only done, where the output of the node is masked. Everywhere else, and where a
cotangent is 0 by chance, a product stays what it is, so that its own gradients are right.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder

__all__ = ["over", "times"]


def times(op: GradientBuilder, node: ir.Node, dY: ir.Value, slope: ir.Value) -> ir.Value:
    """Return dY·slope, and 0 where that is 0·∞; the slope may be of a wider type."""
    return _guarded(op, node, dY, op.Mul(op.cast(dY, slope), slope))


def over(op: GradientBuilder, node: ir.Node, dY: ir.Value, inverse: ir.Value) -> ir.Value:
    """Return dY/inverse, and 0 where that is 0/0; the inverse may be of a wider type."""
    return _guarded(op, node, dY, op.Div(op.cast(dY, inverse), inverse))


def _guarded(op: GradientBuilder, node: ir.Node, dY: ir.Value, product: ir.Value) -> ir.Value:
    if node.outputs[0] in op.masked:
        lost = op.And(op.IsNaN(product), op.Equal(dY, 0.0))
        product = op.Where(lost, op.constant(0, product.dtype), product)
    return op.cast(product, dY)
