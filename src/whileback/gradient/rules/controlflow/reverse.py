"""What a reverse loop reads, carries and writes, and what can be taken out of its body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from whileback.gradient.rules.controlflow.stacked import on_stacks
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard, prune
from whileback.graph.copying import copy_node
from whileback.graph.randomness import draws
from whileback.graph.scopes import is_standard, operands

__all__ = ["Row", "State", "Written", "take_out"]


@dataclass
class Row:
    """A row of a stack, as the body's `value`: read from the end unless written from there.

    With `last`, the body gets the row of the next trip instead, which it has read already, and
    `last` in the last trip: the value after the loop.
    """

    value: ir.Value
    stack: ir.Value
    axis: int = 0
    from_end: bool = True
    last: ir.Value | None = None

    @property
    def is_in_order(self) -> bool:
        """Tell whether the stack holds the rows of the trips 0 … T-1 along axis 0."""
        return self.last is None and self.from_end and self.axis == 0


@dataclass
class State:
    """A value that the reverse loop carries: its start, its name in a trip, after the trip."""

    start: ir.Value
    input: ir.Value
    output: ir.Value


@dataclass(frozen=True)
class Written:
    """A value that the reverse loop writes to a stack, from the stack's end if `from_end`."""

    value: ir.Value
    axis: int
    from_end: bool


def take_out(
    op: Builder, body: ir.Graph, rows: list[Row], carried: Sequence[ir.Value]
) -> dict[ir.Value, Row]:
    """Compute before the loop what no cotangent enters into; return all rows, by their values.

    What is the same in every trip is computed once. What is computed from rows is computed from
    their stacks: one node for all trips instead of one in each.

    Args:
        op: emits before the loop.
        body: the reverse body.
        rows: the rows that it reads.
        carried: its carried values, on which the nodes that stay depend.
    """
    known = {row.value: row for row in rows}
    results = set(body.outputs)
    staying = set(carried)
    for node in list(body):
        read = dict.fromkeys(value for value in operands(node) if value is not None)
        if not staying.isdisjoint(read) or len(node.outputs) != 1 or draws(node):
            staying.update(node.outputs)
        elif known.keys().isdisjoint(read) and node.outputs[0] not in results:
            _move(op.graph, node)
        elif (row := _stacked(op, node, [known[v] for v in read if v in known])) is not None:
            known[row.value] = row
            node.outputs[0].replace_all_uses_with(row.value, replace_graph_outputs=True)
            discard(body, node)
        else:
            staying.update(node.outputs)
    prune(body)
    return known


def _move(graph: ir.Graph, node: ir.Node) -> None:
    """Move a node that is the same in every trip to the end of the graph around the loop."""
    assert node.graph is not None
    node.graph.remove(node)
    graph.append(node)


def _stacked(op: Builder, node: ir.Node, rows: list[Row]) -> Row | None:
    """Emit the node for all trips at once, before the loop, if all its rows are read alike."""
    kinds = {(row.axis, row.from_end, row.last is None) for row in rows}
    emit = on_stacks(node, {row.value for row in rows})
    if emit is None or len(kinds) != 1 or rows[0].axis != 0:
        return None
    output = node.outputs[0]
    value = ir.Value(name=output.name, type=output.type, shape=output.shape)
    if is_standard(node, "Identity"):
        return replace(rows[0], value=value)
    stack = emit(op, {row.value: row.stack for row in rows})
    last = None
    if rows[0].last is not None:
        picked = {row.value: row.last for row in rows if row.last is not None}
        op.graph.append(copy := copy_node(node, picked, op.names))
        last = copy.outputs[0]
    return Row(value, stack, 0, rows[0].from_end, last)
