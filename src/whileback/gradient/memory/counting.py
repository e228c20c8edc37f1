"""How many trips a loop will make, told before it runs."""

from __future__ import annotations

from copy import copy

import onnx_ir as ir

from whileback.gradient.rules.controlflow.trips import runs_to_the_limit
from whileback.graph.builder import Builder
from whileback.graph.cleanup import prune
from whileback.graph.copying import copy_node
from whileback.graph.scopes import Carry, LoopView, loop_view, operands

__all__ = ["count_ahead"]


def count_ahead(op: Builder, view: LoopView) -> ir.Value:
    """Return the number of trips as INT64[1], from values that are there before the loop.

    Where only its condition ends the loop, a copy of it runs ahead, which computes no more than
    the condition needs.
    """
    if view.scan_inputs:
        return op.dim(view.scan_inputs[0].stack, view.scan_inputs[0].axis)
    if view.limit is not None and runs_to_the_limit(view):
        return op.Max(op.Reshape(view.limit, [1]), 0)
    return op.Reshape(_counter(op, view.node), [1])


def _counter(op: Builder, node: ir.Node) -> ir.Value:
    """Emit a copy of a `Loop` that carries what its condition needs, and the number of trips."""
    view = loop_view(copy_node(node, {}, op.names))
    # A graph belongs to one node.
    body = view.node.attributes.pop("body").as_graph()
    needed = _needed(view)
    inside = copy(op)
    inside.graph = body
    made = ir.Value(name=op.names.fresh("trips"), type=ir.TensorType(ir.DataType.INT64))
    made.shape = ir.Shape([])
    results = [body.outputs[0], *(carry.output for carry in needed), inside.Add(body.inputs[0], 1)]
    body.outputs.clear()
    body.outputs.extend(results)
    prune(body)
    inputs = [*body.inputs[:2], *(carry.input for carry in needed), made]
    body.inputs.clear()
    body.inputs.extend(inputs)
    starts = [view.limit, view.start, *(carry.initial for carry in needed), op.constant(0)]
    return op.emit("Loop", starts, {"body": body}, outputs=len(needed) + 1)[-1]


def _needed(view: LoopView) -> list[Carry]:
    """Return the carried values that the loop's condition depends on, in any later trip."""
    sources = {carry.input: carry for carry in view.carries}
    assert view.proceed is not None
    found: dict[ir.Value, None] = {}
    pending = [view.proceed]
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
