"""The gradient of `Unique`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.nn.outputs import extra_output
from whileback.gradient.rules.tensor.places import add_rows_at


@rule("Unique")
def unique(op: GradientBuilder, node: ir.Node, dY: ir.Value, *positions: None) -> ir.Value:
    """Y = X[indices], so dX is dY there and 0 elsewhere: the first of equal ones gets it."""
    X, axis = required(node), node.attributes.get_int("axis")
    count = ir.Shape([op.shapes.new_dim()])
    indices = extra_output(op, node, 1, ir.DataType.INT64, count)
    if axis is not None:
        return add_rows_at(op, X, indices, dY, axis)
    flat = op.Reshape(X, [-1])
    return op.reshape(op.ScatterElements(op.zeros_like(flat), indices, dY), X)
