"""Gradients of operators that pick elements by index."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.tensor.places import add_at, add_rows_at, put_back
from whileback.graph.shapes import rank


@rule("Gather")
def gather(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is rows of X along an axis, so dX is dY added up at the indices of these rows."""
    X, indices = required(node), required(node, 1)
    return add_rows_at(op, X, indices, dY, node.attributes.get_int("axis", 0))


@rule("GatherElements")
def gather_elements(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is elements of X along an axis, so dX is dY added up at their indices."""
    X, indices = required(node), required(node, 1)
    return add_at(op, op.shape_of(X), indices, dY, node.attributes.get_int("axis", 0))


@rule("GatherND")
def gather_nd(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the parts of X at lists of coordinates, so dX is dY added up there."""
    X, indices = required(node), required(node, 1)
    batch_dims = node.attributes.get_int("batch_dims", 0)
    if rank(indices) == 1:
        return op.ScatterND(op.zeros_like(X), indices, dY)
    return put_back(op, X, dY, lambda numbers: op.GatherND(numbers, indices, batch_dims=batch_dims))


@rule("Compress")
def compress(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the rows or elements of X where a condition holds, so dX is dY put back there."""
    axis = node.attributes.get_int("axis")
    return put_back(
        op,
        required(node),
        dY,
        lambda numbers: op.Compress(numbers, node.inputs[1], axis=axis),
    )
