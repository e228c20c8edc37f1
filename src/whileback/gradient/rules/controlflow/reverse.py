"""The reverse `Scan`: what it reads, what it carries, and what can be taken out of its body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.tape import replace_uses
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.scopes import is_standard, walk
from whileback.graph.shapes import rank

__all__ = ["Row", "State", "Written", "emit_scan", "take_out_elementwise"]

ELEMENTWISE = frozenset(
    "Abs Add And Cast Ceil Cos Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual Identity Less "
    "LessOrEqual Log Max Min Mul Neg Not Or Pow Reciprocal Relu Round Sigmoid Sign Sin Sinh "
    "Softplus Sqrt Sub Sum Tan Tanh Where Xor".split()
)


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


def take_out_elementwise(
    op: Builder, body: ir.Graph, rows: list[Row], carried: Sequence[ir.Value]
) -> list[Row]:
    """Compute for all trips at once what no cotangent enters into; return the rows still read.

    An elementwise operator on rows is the same operator on the stacks, before the loop: one node
    for all trips instead of one in each.
    """
    known = {row.value: row for row in rows}
    for node in list(body):
        row = _stacked(op, node, known, set(carried))
        if row is not None:
            known[row.value] = row
            rows.append(row)
            _detach(body, node, row)
    results = set(body.outputs)
    return [row for row in rows if row.value.uses() or row.value in results]


def _stacked(
    op: Builder, node: ir.Node, known: dict[ir.Value, Row], carried: set[ir.Value]
) -> Row | None:
    read = [value for value in node.inputs if value is not None]
    rows = [known[value] for value in read if value in known]
    others = [value for value in read if value not in known]
    if not rows or not is_standard(node, *ELEMENTWISE) or len(node.outputs) != 1:
        return None
    if any(value in carried or _computed_in(node.graph, value) for value in others):
        return None
    if not _broadcasts(rows, others):
        return None

    def apply(pick: dict[ir.Value, ir.Value]) -> ir.Value:
        pick |= {v: op.constant(v.const_value.numpy()) for v in others if _is_local(node, v)}
        inputs = [None if v is None else pick.get(v, v) for v in node.inputs]
        op.append(copy := ir.Node("", node.op_type, inputs, list(node.attributes.values())))
        return copy.outputs[0]

    if is_standard(node, "Identity"):
        return replace(rows[0], value=_renamed(node.outputs[0]))
    stack = apply({row.value: row.stack for row in rows})
    last = None
    if rows[0].last is not None:
        last = apply({row.value: row.last for row in rows if row.last is not None})
    return Row(_renamed(node.outputs[0]), stack, 0, rows[0].from_end, last)


def _renamed(output: ir.Value) -> ir.Value:
    return ir.Value(name=output.name, type=output.type, shape=output.shape)


def _computed_in(graph: ir.Graph | None, value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.graph is graph


def _is_local(node: ir.Node, value: ir.Value) -> bool:
    """Tell whether the value is a constant of the body itself."""
    return value.is_initializer() and value.graph is node.graph and value.const_value is not None


def _broadcasts(rows: list[Row], others: list[ir.Value]) -> bool:
    """Tell whether the operator does the same on the stacks as on each row."""
    count = rank(rows[0].value)
    if count is None or any(rank(row.value) != count for row in rows):
        return False
    if len({(row.axis, row.from_end, row.last is None) for row in rows}) > 1 or rows[0].axis != 0:
        return False
    return all((rank(value) if rank(value) is not None else count + 1) <= count for value in others)


def _detach(body: ir.Graph, node: ir.Node, row: Row) -> None:
    """Let the row stand for the node's output in the body."""
    output = node.outputs[0]
    replace_uses(output, row.value, set(walk(body)))
    for index, value in enumerate(body.outputs):
        if value is output:
            body.outputs[index] = row.value
    output.name = None
    discard(body, node)


def emit_scan(
    op: Builder,
    body: GradientBuilder,
    states: list[State],
    rows: list[Row],
    written: Sequence[Written],
) -> tuple[Sequence[ir.Value], Sequence[ir.Value]]:
    """Emit the reverse `Scan`; return the states after its last trip, and the written stacks.

    Args:
        op: emits into the graph around the loop.
        body: holds the body's nodes; gets its inputs and outputs here.
        states: carried values.
        rows: stacks read.
        written: stacks written.
    """
    graph = body.graph
    count = len(states)
    states = list(states)
    reads: list[tuple[ir.Value, Row]] = []
    for row in rows:
        if row.last is None:
            reads.append((row.value, row))
            continue
        fetched = ir.Value(name=op.names.fresh(f"{row.value.name}/row"), type=row.value.type)
        fetched.shape = row.value.shape
        reads.append((fetched, row))
        states.append(State(row.last, row.value, fetched))
    graph.inputs.clear()
    graph.inputs.extend([state.input for state in states])
    graph.inputs.extend([value for value, _ in reads])
    results = [state.output for state in states] + [each.value for each in written]
    graph.outputs.clear()
    graph.outputs.extend(_own_values(body, results))
    attributes = {
        "body": graph,
        "num_scan_inputs": len(reads),
        "scan_input_axes": [row.axis for _, row in reads],
        "scan_input_directions": [int(row.from_end) for _, row in reads],
        "scan_output_axes": [each.axis for each in written] or None,
        "scan_output_directions": [int(each.from_end) for each in written] or None,
    }
    inputs = [state.start for state in states] + [row.stack for _, row in reads]
    outputs = op.emit("Scan", inputs, attributes, outputs=len(results))
    return outputs[:count], outputs[len(states) :]


def _own_values(body: Builder, results: list[ir.Value]) -> list[ir.Value]:
    """Give each result a node of its own: ONNX Runtime 1.32 leaves others of a `Scan` unwritten."""
    taken: set[ir.Value] = set()
    own = []
    for value in results:
        producer = value.producer()
        if producer is None or producer.graph is not body.graph or value in taken:
            value = body.Identity(value)
        taken.add(value)
        own.append(value)
    return own
