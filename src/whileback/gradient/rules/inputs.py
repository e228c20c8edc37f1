"""Reading the inputs of a node: the ones that must be there, and the ones that may be missing."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["optional", "required"]


def optional(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input of the node, or None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def required(node: ir.Node, index: int = 0) -> ir.Value:
    """Return an input that the operator always has."""
    value = node.inputs[index]
    assert value is not None, node
    return value
