"""Writing the reverse loop down: as a `Scan`, or as a `Loop` where a `Scan` may not be used."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.rules.controlflow.reverse import Row, State, Written
from whileback.gradient.rules.controlflow.tape import replace_uses
from whileback.graph.builder import Builder
from whileback.graph.cleanup import prune
from whileback.graph.moving import taken_out
from whileback.graph.scopes import walk
from whileback.graph.shapes import rank

__all__ = ["emit_reverse_loop", "emit_scan"]

Stacks = tuple[Sequence[ir.Value], Sequence[ir.Value]]


def emit_reverse_loop(
    op: Builder,
    body: Builder,
    states: list[State],
    rows: list[Row],
    written: Sequence[Written],
    count: ir.Value,
    varies: bool = False,
) -> Stacks:
    """Emit the reverse loop; return its states after the last trip, and the written stacks.

    Args:
        op: emits into the graph around the loop.
        body: holds the body's nodes; gets its inputs and outputs here.
        states: carried values.
        rows: stacks read.
        written: stacks written.
        count: the number of trips, INT64[1].
        varies: whether carried values change their shape, or are no tensors.

    A `Scan` cannot carry such values, and ONNX Runtime refuses one whose body has outputs of
    unknown rank.
    """
    outputs = [state.output for state in states] + [each.value for each in written]
    if varies or any(rank(value) is None for value in (*outputs, *(row.value for row in rows))):
        return _emit_loop(op, body, states, rows, written, count)
    if not rows:
        numbers = op.arange(count)
        rows = [Row(ir.Value(name=op.names.fresh("trip"), type=numbers.type), numbers)]
    return emit_scan(op, body, states, rows, written)


def _next_rows(op: Builder, rows: list[Row]) -> tuple[list[tuple[ir.Value, Row]], list[State]]:
    """Return what is fetched in each trip, and the carried values that are the next trip's rows."""
    fetched: list[tuple[ir.Value, Row]] = []
    following = []
    for row in rows:
        value = row.value
        if row.last is not None:
            name = op.names.fresh(f"{row.value.name}/row")
            value = ir.Value(name=name, type=row.value.type, shape=row.value.shape)
            following.append(State(row.last, row.value, value))
        fetched.append((value, row))
    return fetched, following


def _set_body(graph: ir.Graph, inputs: list[ir.Value], outputs: list[ir.Value]) -> None:
    for values, new in ((graph.inputs, inputs), (graph.outputs, outputs)):
        values.clear()
        values.extend(new)
    prune(graph)


def emit_scan(
    op: Builder,
    body: Builder,
    states: list[State],
    rows: list[Row],
    written: Sequence[Written],
) -> Stacks:
    """Emit the reverse loop as a `Scan`, which makes at least one trip."""
    fetched, following = _next_rows(op, rows)
    carried = [*states, *following]
    results = [state.output for state in carried] + [each.value for each in written]
    inputs = [state.input for state in carried] + [value for value, _ in fetched]
    _set_body(body.graph, inputs, body.own(results))
    attributes = {
        "body": body.graph,
        "num_scan_inputs": len(fetched),
        "scan_input_axes": [row.axis for _, row in fetched],
        "scan_input_directions": [int(row.from_end) for _, row in fetched],
        "scan_output_axes": [each.axis for each in written] or None,
        "scan_output_directions": [int(each.from_end) for each in written] or None,
    }
    starts = [state.start for state in carried] + [row.stack for _, row in fetched]
    outputs = op.emit("Scan", starts, attributes, outputs=len(results))
    return outputs[: len(states)], outputs[len(carried) :]


def _emit_loop(
    op: Builder,
    body: Builder,
    states: list[State],
    rows: list[Row],
    written: Sequence[Written],
    count: ir.Value,
) -> Stacks:
    """Fetch row T-1-i by `Gather`; stacks come out in the order of the reverse trips."""
    trip = op.new_scalar("trip", ir.DataType.INT64)
    proceed = op.new_scalar("proceed", ir.DataType.BOOL)
    limit = op.Squeeze(count, [0])
    fetched, following = _next_rows(op, rows)
    found = _fetch(body, fetched, trip, op.Sub(limit, 1))
    carried = [*states, *following]
    values = [*(state.output for state in carried), *(each.value for each in written)]
    results = [proceed, *(found.get(value, value) for value in values)]
    _set_body(body.graph, [trip, proceed, *(state.input for state in carried)], results)
    inputs = [limit, None, *(state.start for state in carried)]
    outputs = op.emit("Loop", inputs, {"body": body.graph}, outputs=len(results) - 1)
    stacks = [
        op.Slice(stack, [-1], [-(2**63) + 1], [0], [-1]) if each.from_end else stack
        for stack, each in zip(outputs[len(carried) :], written, strict=True)
    ]
    return outputs[: len(states)], stacks


def _fetch(
    body: Builder, fetched: list[tuple[ir.Value, Row]], trip: ir.Value, last: ir.Value
) -> dict[ir.Value, ir.Value]:
    """Put nodes that fetch the rows before those that read them; return the rows fetched."""
    users = set(walk(body.graph))
    nodes = taken_out(body.graph)
    reverse = body.Sub(last, trip)
    found = {}
    for value, row in fetched:
        found[value] = body.Gather(row.stack, reverse if row.from_end else trip, axis=row.axis)
        found[value].shape = value.shape
        replace_uses(value, found[value], users)
    body.graph.extend(nodes)
    return found
