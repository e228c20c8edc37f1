"""Which node of the model a node of its gradient comes from."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["MEMORY", "ORIGIN", "is_new", "source"]

# Where a node of the gradient remembers the name of the model's node that it is emitted for.
ORIGIN = "whileback.from"
# Where a loop tells how much of it is kept for its gradient, and why.
MEMORY = "whileback.memory"


def is_new(node: ir.Node) -> bool:
    """Tell whether the node is none of the model's own."""
    return ORIGIN in node.metadata_props


def source(node: ir.Node) -> str:
    """Return the name of the model's own node that this one stems from."""
    return node.metadata_props.get(ORIGIN, node.name or node.op_type)
