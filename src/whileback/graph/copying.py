"""Copies of nodes and subgraphs, with some of the values replaced."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import GraphError
from whileback.graph.names import Names, label
from whileback.graph.scopes import subgraphs

__all__ = ["clone", "copy_node"]

ValueMap = dict[ir.Value, ir.Value]


def clone(model: ir.Model) -> ir.Model:
    """Return a copy of a model, which shares its tensors.

    Raises: GraphError if something reads a value that nothing before it defines.
    """
    try:
        return model.clone()
    except RuntimeError as error:
        problem = _unready(model.graph, set()) or f"The model is not valid: {error.__cause__}"
        raise GraphError(problem) from error


def _unready(graph: ir.Graph, known: set[ir.Value]) -> str | None:
    """Say what a graph reads before it is there, None if all is there in time."""
    known = known | {*graph.inputs, *graph.initializers.values()}
    advice = "Define it, and put nodes behind those that they read."
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in known:
                return (
                    f"Node {label(node)} ({node.op_type}) reads '{value.name}', which nothing "
                    f"before it defines. {advice}"
                )
        for inner in subgraphs(node):
            if found := _unready(inner, known):
                return found
        known.update(node.outputs)
    for value in graph.outputs:
        if value not in known:
            return f"Graph '{graph.name}' returns '{value.name}', which nothing defines. {advice}"
    return None


def copy_node(node: ir.Node, replaced: ValueMap, names: Names) -> ir.Node:
    """Return a copy of the node that reads the replaced values; every value in it is renamed.

    `replaced` gains the node's outputs, so that nodes copied later read those of the copy.
    """
    copy = ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else replaced.get(value, value) for value in node.inputs],
        [_copy_attribute(attribute, replaced, names) for attribute in node.attributes.values()],
        overload=node.overload,
        num_outputs=len(node.outputs),
        version=node.version,
        name=names.fresh(node.name or node.op_type),
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )
    copy.meta.update(node.meta)
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        _copy_value(old, new, names)
        replaced[old] = new
    return copy


def _copy_attribute(attribute: ir.Attr, replaced: ValueMap, names: Names) -> ir.Attr:
    if attribute.type != ir.AttributeType.GRAPH:
        return attribute
    return ir.AttrGraph(attribute.name, _copy_graph(attribute.as_graph(), replaced, names))


def _copy_graph(graph: ir.Graph, outer: ValueMap, names: Names) -> ir.Graph:
    replaced = dict(outer)
    for value in (*graph.inputs, *graph.initializers.values()):
        if value not in replaced or value in outer:
            replaced[value] = _copy_value(value, ir.Value(), names)
    nodes = [copy_node(node, replaced, names) for node in graph]
    return ir.Graph(
        [replaced[value] for value in graph.inputs],
        [replaced.get(value, value) for value in graph.outputs],
        nodes=nodes,
        initializers=[replaced[value] for value in graph.initializers.values()],
        name=names.fresh(graph.name or "graph"),
    )


def _copy_value(old: ir.Value, new: ir.Value, names: Names) -> ir.Value:
    new.name = names.fresh(old.name or "value")
    new.type = old.type
    new.shape = old.shape
    new.const_value = old.const_value
    return new
