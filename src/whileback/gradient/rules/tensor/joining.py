"""Gradients of operators that put tensors together or take them apart."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.graph.builder import Operand


@rule("Concat")
def concat(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Sequence[ir.Value]:
    """Y is the inputs one behind another, so dY taken apart is their gradients."""
    parts = [value for value in node.inputs if value is not None]
    if len(parts) == 1:
        return [dY]
    axis = node.attributes["axis"].as_int()
    return op.emit("Split", [dY, _sizes(op, parts, axis)], {"axis": axis}, outputs=len(parts))


def _sizes(op: GradientBuilder, parts: Sequence[ir.Value], axis: int) -> Operand:
    dims = [None if part.shape is None else part.shape[axis] for part in parts]
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(parts):
        return known
    return op.Concat(*(op.dim(part, axis) for part in parts), axis=0)


@rule("Split")
def split(op: GradientBuilder, node: ir.Node, *dY: ir.Value | None) -> ir.Value:
    """The outputs are X in parts, so dX is their cotangents one behind another."""
    parts = [
        op.zeros_like(part) if cotangent is None else cotangent
        for part, cotangent in zip(node.outputs, dY, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return op.Concat(*parts, axis=node.attributes.get_int("axis", 0))
