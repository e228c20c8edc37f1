"""Sequences that grow or shrink, of which trips read elements or join all: carried as one tensor.

The gradient of what joins a sequence is a sequence again, added to another one element by element;
that of a tensor which gets a row more is a tensor with a row less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.memory.carries import replace_carry
from whileback.gradient.memory.lists import FLOATS, joined
from whileback.gradient.rules.controlflow.scattered import in_a_row
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard, prune
from whileback.graph.constants import known_ints
from whileback.graph.containers import is_sequence
from whileback.graph.loops import More, extend_loop
from whileback.graph.moving import taken_out
from whileback.graph.scopes import Carry, LoopView, behind_identity, is_standard, loop_view
from whileback.graph.shapes import rank, static_shape

__all__ = ["carry_as_tensors"]

CHANGES = ("Identity", "SequenceErase", "SequenceInsert")
READS = ("ConcatFromSequence", "SequenceAt", "SequenceLength")


@dataclass(frozen=True)
class _Changing:
    """A carried sequence, the nodes that read it or change it, and its elements' shape."""

    carry: Carry
    nodes: list[ir.Node]
    dims: tuple[int, ...]


def carry_as_tensors(op: Builder, node: ir.Node) -> ir.Node:
    """Let a loop carry tensors in the place of sequences; return what stands for it.

    `op` is a builder for the graph that the outermost loops are in.
    """
    while (found := next(_changing(loop_view(node)), None)) is not None:
        node = _rewrite(op, loop_view(node), found)
    return node


def _changing(view: LoopView) -> Iterator[_Changing]:
    for carry in view.carries:
        nodes = _users(view, carry) if is_sequence(carry.input) else []
        dims = _dims(carry, nodes)
        if dims is not None and any(is_standard(node, "SequenceErase", *READS) for node in nodes):
            yield _Changing(carry, nodes, dims)


def _users(view: LoopView, carry: Carry) -> list[ir.Node]:
    """Return the nodes that read a sequence, or what becomes of it; none if there are others."""
    versions, nodes = [carry.input], list[ir.Node]()
    for value in versions:
        for use in value.uses():
            if use.node.graph is not view.body or use.idx or not _is_known(use.node):
                return []
            nodes.append(use.node)
            versions += use.node.outputs if is_standard(use.node, *CHANGES) else ()
    results = [value for value in view.body.outputs if value in versions]
    return nodes if results == [carry.output] else []


def _is_known(node: ir.Node) -> bool:
    if is_standard(node, "SequenceInsert"):
        return optional(node, 2) is None or known_ints(optional(node, 2)) == [0]
    if is_standard(node, "SequenceErase"):
        return optional(node, 1) is None or known_ints(optional(node, 1)) in ([0], [-1])
    if is_standard(node, "SequenceAt"):
        return rank(required(node, 1)) == 0
    return is_standard(node, "Identity", *READS)


def _dims(carry: Carry, nodes: list[ir.Node]) -> tuple[int, ...] | None:
    """Return the shape of the elements if it is known, and the same for all.

    None for a sequence that loses some and gets others: nothing tells that its size changes.
    """
    if {"SequenceErase", "SequenceInsert"} <= {node.op_type for node in nodes}:
        return None
    parts = [required(node, 1) for node in nodes if is_standard(node, "SequenceInsert")]
    start = behind_identity(carry.initial).producer()
    if start is None or not is_standard(start, "SequenceEmpty"):
        parts.append(carry.initial)
    shapes = {static_shape(part) for part in parts}
    dims = shapes.pop() if len(shapes) == 1 else None
    return dims if dims and 0 not in dims and carry.initial.dtype in FLOATS else None


def _rewrite(op: Builder, view: LoopView, found: _Changing) -> ir.Node:
    """Carry a tensor besides, let nodes read that, and make a sequence of it after the loop."""
    carry, around = found.carry, view.node.graph
    assert isinstance(around, ir.Graph)
    apart = op.inside("rows")
    apart.origin, apart.role = view.node, "rows"
    start = joined(apart, carry.initial, found.dims)
    around.insert_before(view.node, taken_out(apart.graph))
    rows = ir.Value(name=op.names.fresh(f"{carry.input.name}/rows"), type=start.type)
    rows.shape = ir.Shape([op.shapes.new_dim(), *found.dims])
    (after,) = op.within(view.body).own([_replaced(op, view, found, rows)])
    view = loop_view(view.node)  # what read the sequence may be what another value becomes
    (result, *_), (last, *_) = extend_loop(view, More([(start, rows, after)]))
    last.name, last.type = op.names.fresh(f"{rows.name}/last"), rows.type
    last.shape = ir.Shape([op.shapes.new_dim(), *found.dims])
    node = result.producer()
    assert node is not None
    renewed = loop_view(node)
    (old,) = (each for each in renewed.carries if each.input is carry.input)
    replace_carry(
        op, renewed, old, "apart", lambda op: op.SplitToSequence(last, axis=0, keepdims=0)
    )
    prune(view.body)
    return node


def _replaced(op: Builder, view: LoopView, found: _Changing, rows: ir.Value) -> ir.Value:
    """Let nodes read a tensor in the place of a sequence; return it as it is after a trip."""
    tensors = {found.carry.input: rows}
    for node in [node for node in view.body if node in found.nodes]:
        apart = op.inside("rows")
        apart.origin, apart.role = node, "rows"
        result = _done(apart, node, tensors[required(node)], len(found.dims))
        view.body.insert_before(node, taken_out(apart.graph))
        if is_standard(node, *CHANGES):
            tensors[node.outputs[0]] = result
            continue
        result.shape = result.shape or node.outputs[0].shape
        node.outputs[0].replace_all_uses_with(result, replace_graph_outputs=True)
        discard(view.body, node)
    return tensors[found.carry.output]


def _done(op: Builder, node: ir.Node, rows: ir.Value, count: int) -> ir.Value:
    """Do to the rows of a tensor what a node does to the elements of a sequence."""
    if is_standard(node, "Identity"):
        return rows
    if is_standard(node, "SequenceInsert"):
        row = op.Unsqueeze(required(node, 1), [0])
        return op.Concat(*((rows, row) if optional(node, 2) is None else (row, rows)), axis=0)
    if is_standard(node, "SequenceErase"):
        return _erased(op, node, rows)
    if is_standard(node, "SequenceAt"):
        return op.Gather(rows, required(node, 1))
    if is_standard(node, "SequenceLength"):
        return op.Squeeze(op.dim(rows, 0), [0])
    axis = node.attributes["axis"].as_int()
    if not node.attributes.get_int("new_axis", 0):
        return in_a_row(op, rows, count, axis % count)
    axis %= count + 1
    return op.Transpose(rows, perm=[*range(1, axis + 1), 0, *range(axis + 1, count + 1)])


def _erased(op: Builder, node: ir.Node, rows: ir.Value) -> ir.Value:
    """Return the rows but for the first or the last one; as the sequence must, they have one."""
    rest, first = op.Sub(op.dim(rows, 0), 1), known_ints(optional(node, 1)) == [0]
    sizes = op.Concat(*(([1], rest) if first else (rest, [1])), axis=0)
    return op.emit("Split", [rows, sizes], {"axis": 0}, outputs=2)[int(first)]
