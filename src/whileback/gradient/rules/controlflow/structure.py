"""Keeping what is read of a value instead of the value: its shape, its length, a sum of it."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from whileback.graph.randomness import draws
from whileback.graph.scopes import is_standard, operands
from whileback.graph.shapes import static_shape

__all__ = ["move_forward"]


def move_forward(
    reverse: ir.Graph,
    cotangents: Collection[ir.Value],
    body: ir.Graph,
    varying: Collection[ir.Value],
) -> None:
    """Move to the forward body the nodes that compute from values that are hard to keep.

    Most read no more than a shape, which is a row of a few numbers. What turns out to be hard to
    keep as well is computed again on the way back, from what is needed for that. So it is with what
    is easy to keep, but read for its size alone.

    Args:
        reverse: the reverse body, which reads values of the forward body.
        cotangents: what it will carry or read.
        body: the forward body.
        varying: its values that change their shape from trip to trip, or are no tensors.
    """
    hard, results = set(varying), set(reverse.outputs)
    sized = _only_sized(reverse, body)
    own = set(cotangents).union(*(node.outputs for node in reverse))
    for node in list(reverse):
        read = [value for value in operands(node) if value is not None]
        if hard.union(sized).isdisjoint(read) or not own.isdisjoint(read) or draws(node):
            continue
        if not results.isdisjoint(node.outputs):
            continue
        reverse.remove(node)
        body.append(node)
        own.difference_update(node.outputs)
        hard.update(value for value in node.outputs if not _is_fixed(value))


def _only_sized(reverse: ir.Graph, body: ir.Graph) -> set[ir.Value]:
    """Return what the forward body computes of which the reverse body reads no more than a size."""
    asked, read = set[ir.Value | None](), set[ir.Value | None]()
    for node in reverse:
        (asked if is_standard(node, "Shape", "Size") else read).update(operands(node))
    made = {value for node in body for value in node.outputs}
    return {value for value in made & (asked - read) if not _is_fixed(value)}


def _is_fixed(value: ir.Value) -> bool:
    return isinstance(value.type, ir.TensorType) and static_shape(value) is not None
