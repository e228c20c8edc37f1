"""Moving nodes between graphs and within them, and letting them become others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

__all__ = ["become", "put_first", "taken_out"]


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


def become(
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Let a node compute its outputs in another way; attributes that are None are left out."""
    node.op_type = op_type
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.attributes.clear()
    given = {name: value for name, value in attributes.items() if value is not None}
    for attribute in ir.convenience.convert_attributes(given):
        node.attributes.add(attribute)
