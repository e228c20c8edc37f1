"""Outputs of subgraphs: a value of its own for each."""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.cleanup import discard
from whileback.graph.names import Names
from whileback.graph.scopes import definitions, is_standard, subgraphs, walk

__all__ = ["separate_outputs"]


def separate_outputs(graph: ir.Graph) -> None:
    """Give every output of a subgraph a value of its own, made by a node of that subgraph.

    ONNX Runtime refuses outer values, and it leaves results unwritten, silently, when a branch
    lists one value twice, or when the body of a `Scan` does or returns an input. In the body of a
    `Loop` both work and cost nothing, so that they stay, but for the trip number, of which each
    trip would return the last; there a condition that is always true is passed on, since the body
    runs only when it was true before.
    """
    names: Names | None = None
    for node in list(walk(graph)):
        for inner in subgraphs(node):
            names = names or Names.of(graph)
            if is_standard(node, "Loop"):
                _pass_condition(inner)
            _separate(node, inner, names)
        if is_standard(node, "Loop"):
            _name_results(node, names)


def _pass_condition(body: ir.Graph) -> None:
    """Return the condition that came in for one that is always true."""
    producer = body.outputs[0].producer()
    if producer is None or not is_standard(producer, "Identity"):
        return
    source = producer.inputs[0]
    tensor = None if source is None or source.is_graph_input() else source.const_value
    if tensor is not None and tensor.numpy().all():
        body.outputs[0] = body.inputs[1]
        if not producer.outputs[0].uses():
            discard(body, producer)


def _separate(node: ir.Node, graph: ir.Graph, names: Names) -> None:
    is_body = is_standard(node, "Loop")
    own = set(definitions(graph))
    seen = set(graph.inputs[:2] if is_body else graph.inputs)
    for index, value in enumerate(graph.outputs):
        passes_condition = is_body and index == 0 and value is graph.inputs[1]
        if value in own and (value not in seen or passes_condition):
            if not is_body:
                seen.add(value)
            continue
        copy = ir.node("Identity", [value], name="")
        output = copy.outputs[0]
        output.name = names.fresh(str(value.name))
        output.type, output.shape = value.type, value.shape
        graph.append(copy)
        graph.outputs[index] = output


def _name_results(node: ir.Node, names: Names | None) -> None:
    """Name the outputs of a loop that are not used: ONNX Runtime ends the process without."""
    for index, value in enumerate(node.outputs):
        if not value.name and names is not None:
            value.name = names.fresh(f"{node.name or node.op_type}_{index}")
