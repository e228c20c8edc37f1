"""Rows that trips pick one after the other up to an end of a tensor: cut out instead.

`Gather(X, Range(1, size of X))` is all rows but the first one, and so is a `Slice`, of which
nothing is kept, which can be undone, and whose gradient is amid zeros and no sum at places.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.memory.places import known, summand
from whileback.gradient.rules.inputs import required
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.moving import taken_out
from whileback.graph.scopes import behind_identity, is_standard, loop_view
from whileback.graph.shapes import rank, static_shape

__all__ = ["cut_ranges"]

END = 2**63 - 1


def cut_ranges(op: Builder, loops: Sequence[ir.Node]) -> None:
    """Let the bodies of loops cut out rows where they pick all between two places."""
    for loop in loops:
        body = loop_view(loop).body
        for node in list(body):
            found = _cut(node) if is_standard(node, "Gather") else None
            if found is None:
                continue
            apart = op.inside("cut")
            apart.origin, apart.role = node, "cut"
            rows = apart.Slice(required(node), *([each] for each in found))
            body.insert_before(node, taken_out(apart.graph))
            rows.shape = rows.shape or node.outputs[0].shape
            node.outputs[0].replace_all_uses_with(rows, replace_graph_outputs=True)
            discard(body, node)


def _cut(node: ir.Node) -> tuple[int, int, int] | None:
    """Return the begin, the end and the axis of what a `Gather` does no more than cut out."""
    X, count = required(node), rank(required(node))
    numbers = behind_identity(required(node, 1)).producer()
    if not count or numbers is None or not is_standard(numbers, "Range"):
        return None
    axis = node.attributes.get_int("axis", 0) % count
    begin, step = known(numbers.inputs[0]), known(numbers.inputs[2])
    end = _from_end(required(numbers, 1), X, axis)
    if begin is None or begin < 0 or step != 1 or end is None or end > 0:
        return None
    return begin, end or END, axis


def _from_end(limit: ir.Value, X: ir.Value, axis: int) -> int | None:
    """Return what a number has more than there are rows in X along an axis, if that is known."""
    value, more = behind_identity(limit), 0
    while (node := value.producer()) is not None:
        if is_standard(node, "Squeeze", "Unsqueeze", "Reshape"):
            value = behind_identity(required(node))
        elif (sum_ := summand(value)) is not None:
            value, more = behind_identity(sum_[0]), more + sum_[1]
        else:
            break
    if node is None or not is_standard(node, "Shape") or static_shape(value) != (1,):
        return None
    is_size = behind_identity(required(node)) is behind_identity(X)
    return more if is_size and node.attributes.get_int("start", 0) == axis else None
