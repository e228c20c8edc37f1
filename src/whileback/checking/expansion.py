"""What expansions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

__all__ = ["Expansion", "UnknownRankError", "float_attribute", "known_rank"]

# Called as `expansion(op, node, *node.inputs)`; emits the operators that the node stands for and
# returns what its outputs are.
Expansion = Callable[..., Sequence[ir.Value]]


class UnknownRankError(Exception):
    """An expansion depends on a rank that is not known; the node stays as it is."""


def known_rank(value: ir.Value) -> int:
    """Return the rank of an input of an expanded node.

    Raises: UnknownRankError.
    """
    if value.shape is None:
        raise UnknownRankError
    return len(value.shape)


def float_attribute(node: ir.Node, name: str, default: float) -> float:
    """Return the attribute, or its default as the float32 that it is in a file."""
    return float(np.float32(node.attributes.get_float(name, default)))
