"""What expansions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

__all__ = ["Expansion", "float_attribute", "known_rank"]

# Called as `expansion(op, node, *node.inputs)`; emits the operators that the node stands for and
# returns what its outputs are. The ranks of the inputs are known.
Expansion = Callable[..., Sequence[ir.Value]]


def known_rank(value: ir.Value) -> int:
    """Return the rank of an input of an expanded node."""
    assert value.shape is not None
    return len(value.shape)


def float_attribute(node: ir.Node, name: str, default: float) -> float:
    """Return the attribute, or its default as the float32 that it is in a file."""
    return float(np.float32(node.attributes.get_float(name, default)))
