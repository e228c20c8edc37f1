"""Moving nodes between graphs and within them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

__all__ = ["put_first", "taken_out"]


def taken_out(graph: ir.Graph) -> list[ir.Node]:
    """Take all nodes out of a graph, and return them in their order."""
    nodes = list(graph)
    graph.remove(nodes)
    return nodes


def put_first(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    """Put nodes before those of a graph, unless it has none that could read them."""
    first = next(iter(graph), None)
    if nodes and first is not None:
        graph.insert_before(first, nodes)
