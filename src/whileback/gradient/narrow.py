"""Whole numbers, and floats of few bits, to which something was rounded: they have cotangents.

These are FLOAT. What computes with such numbers is differentiated as the same on floats.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.builder import GradientBuilder
from whileback.graph.schemas import type_letters
from whileback.graph.shapes import NARROW

__all__ = ["on_floats"]


def on_floats(op: GradientBuilder, node: ir.Node) -> ir.Node:
    """Return a copy of the node that computes with floats, the node itself if it does already.

    The copy is one of the gradient's nodes. It reads FLOAT in the place of narrow numbers that
    have cotangents, and of what must have the same type.
    """
    if not any(v in op.active and v.dtype in NARROW for v in (*node.inputs, *node.outputs)):
        return node
    inputs, outputs = type_letters(node)
    letters = {
        letter
        for values, known in ((node.inputs, inputs), (node.outputs, outputs))
        for value, letter in zip(values, known, strict=True)
        if letter and value in op.active and value.dtype in NARROW
    }
    if not letters:
        return node
    read = [
        op.cast(value, ir.DataType.FLOAT) if value is not None and letter in letters else value
        for value, letter in zip(node.inputs, inputs, strict=True)
    ]
    op.active.update(
        new for old, new in zip(node.inputs, read, strict=True) if old in op.active and new
    )
    attributes = list(node.attributes.values())
    copy = ir.Node("", node.op_type, read, attributes, num_outputs=len(node.outputs))
    op.append(copy)
    return copy
