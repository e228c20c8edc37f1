"""Keeping zeros and infinities away from each other, where some elements were not chosen.

`times` and `over` keep the zero of what was not chosen away from an infinite slope. That is only
needed, and only done, where the output of the node is masked. Everywhere else, and where a
cotangent is 0 by chance, a product stays what it is, so that its own gradients are right. `kept`
keeps what may be infinite away from the zero that what was not chosen gets.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.graph.scopes import is_standard

__all__ = ["kept", "over", "times"]

# Where one element of what these compute is infinite, others are, too.
_MIXING = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_MOVING = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def times(op: GradientBuilder, node: ir.Node, dY: ir.Value, slope: ir.Value) -> ir.Value:
    """Return dY·slope, and 0 where that is 0·∞; the slope may be of a wider type."""
    return _guarded(op, node, dY, op.Mul(op.cast(dY, slope), slope))


def over(op: GradientBuilder, node: ir.Node, dY: ir.Value, inverse: ir.Value) -> ir.Value:
    """Return dY/inverse, and 0 where that is 0/0; the inverse may be of a wider type."""
    return _guarded(op, node, dY, op.Div(op.cast(dY, inverse), inverse))


def kept(op: GradientBuilder, chosen: ir.Value, dY: ir.Value) -> ir.Value:
    """Return dY where it is chosen, and 0 elsewhere.

    `Where` takes ONNX Runtime ten times as long as a product with 1 or 0, in which an infinity
    that was not chosen would be NaN. Of a sum of many products all elements are, or none.
    """
    if not _is_mixed(op, dY):
        return op.Where(chosen, dY, 0.0)
    product = op.Mul(op.cast(chosen, dY), dY)
    op.mixed.add(product)
    return product


def _is_mixed(op: GradientBuilder, value: ir.Value) -> bool:
    """Tell whether a value comes from sums of products, of which others are infinite if it is."""
    while value not in op.mixed:
        node = value.producer()
        if node is None or node.graph is not op.graph:
            return False
        if is_standard(node, "Add"):
            return all(each is not None and _is_mixed(op, each) for each in node.inputs)
        if is_standard(node, *_MIXING):
            break
        first = node.inputs[0] if is_standard(node, *_MOVING) else None
        if first is None:
            return False
        value = first
    op.mixed.add(value)
    return True


def _guarded(op: GradientBuilder, node: ir.Node, dY: ir.Value, product: ir.Value) -> ir.Value:
    if node.outputs[0] in op.masked:
        lost = op.And(op.IsNaN(product), op.Equal(dY, 0.0))
        product = op.Where(lost, op.constant(0, product.dtype), product)
    return op.cast(product, dY)
