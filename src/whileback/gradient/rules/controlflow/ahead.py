"""Running a loop ahead: a copy of it, of which no more is left than what is asked for needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.cleanup import prune
from whileback.graph.copying import copy_node
from whileback.graph.scopes import Carry, LoopView, definitions, loop_view, operands

__all__ = ["Update", "run_ahead"]

# What a trip makes of a number, given what stands for the values of the loop's body.
Update = Callable[[Builder, ir.Value, Mapping[ir.Value, ir.Value]], ir.Value]


def run_ahead(
    op: Builder, node: ir.Node, read: Sequence[ir.Value], updates: Sequence[Update]
) -> Sequence[ir.Value]:
    """Emit a copy of a `Loop` that carries numbers from 0 on; return them after its last trip.

    Args:
        op: emits before the loop.
        node: the loop.
        read: the values of its body that the updates read.
        updates: one for each number, INT64[].
    """
    view = loop_view(copy_node(node, {}, op.names))
    # A graph belongs to one node.
    body = view.node.attributes.pop("body").as_graph()
    original = node.attributes["body"].as_graph()
    copies = dict(zip(definitions(original), definitions(body), strict=True))
    needed = _needed(view, [body.outputs[0], *(copies[value] for value in read)])
    inside = op.within(body)
    numbers = [op.new_scalar("number", ir.DataType.INT64) for _ in updates]
    results = [body.outputs[0], *(carry.output for carry in needed)]
    results += [update(inside, n, copies) for update, n in zip(updates, numbers, strict=True)]
    inputs = [*body.inputs[:2], *(carry.input for carry in needed), *numbers]
    for values, new in ((body.outputs, results), (body.inputs, inputs)):
        values.clear()
        values.extend(new)
    prune(body)
    starts = [view.limit, view.start, *(carry.initial for carry in needed)]
    starts += [op.constant(0)] * len(numbers)
    return op.emit("Loop", starts, {"body": body}, outputs=len(starts) - 2)[len(needed) :]


def _needed(view: LoopView, values: Iterable[ir.Value]) -> list[Carry]:
    """Return the carried values that values of the body depend on, in any later trip."""
    sources = {carry.input: carry for carry in view.carries}
    found: dict[ir.Value, None] = {}
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found[value] = None
        node = value.producer()
        if value in sources:
            pending.append(sources[value].output)
        elif node is not None:
            pending += filter(None, operands(node))
    return [carry for carry in view.carries if carry.input in found]
