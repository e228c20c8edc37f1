"""Removing what nothing reads."""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.scopes import subgraphs, walk

__all__ = ["discard", "prune"]


def discard(graph: ir.Graph, node: ir.Node) -> None:
    """Remove a node whose outputs nothing reads; what it and its bodies read is freed."""
    for inner in subgraphs(node):
        for each in walk(inner):
            each.resize_inputs(0)
    node.resize_inputs(0)
    graph.remove(node)


def prune(graph: ir.Graph) -> None:
    """Remove the nodes and initializers of this graph that no result depends on."""
    results = set(graph.outputs)
    for node in reversed(graph):
        if not any(value.uses() or value in results for value in node.outputs):
            discard(graph, node)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in results and not value.is_graph_input():
            del graph.initializers[name]
