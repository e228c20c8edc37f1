"""Bringing nodes into an order in which each one comes after those that it reads."""

from __future__ import annotations

import heapq

import onnx_ir as ir

from whileback.errors import GraphError, nearest
from whileback.graph.names import label
from whileback.graph.scopes import definitions, subgraphs, walk_graphs

__all__ = ["is_sorted", "sort"]

_SHOWN = 8

# For each node, by its position: the positions of the nodes it reads, and what it reads from them.
Needs = list[dict[int, ir.Value]]


def sort(graph: ir.Graph) -> None:
    """Sort the nodes of a main graph and of everything inside it; sorted ones stay as they are.

    Raises: GraphError for a cycle, and for a value that is read but not defined.
    """
    for value, reader in _sort(graph).items():
        reads = f"Graph '{graph.name}' returns" if reader is None else f"{_node(reader)} reads"
        known = dict.fromkeys(v.name for each in walk_graphs(graph) for v in definitions(each))
        raise GraphError(
            f"{reads} '{value.name}', which no node, input or initializer in reach defines; "
            f"{nearest(str(value.name), [name for name in known if name])}"
        )


def is_sorted(graph: ir.Graph) -> bool:
    """Tell whether each node of the graph and of those inside it comes after what it reads."""
    for each in walk_graphs(graph):
        later = {value for node in each for value in node.outputs}
        for node in each:
            if not later.isdisjoint(_reads(node)):
                return False
            later.difference_update(node.outputs)
    return True


def _node(node: ir.Node) -> str:
    return f"Node {label(node)} ({node.op_type})"


def _sort(graph: ir.Graph) -> dict[ir.Value, ir.Node | None]:
    """Sort a graph and those inside it; return the outer values that it reads, and who does."""
    nodes = list(graph)
    makers = {value: index for index, node in enumerate(nodes) for value in node.outputs}
    given = {*graph.inputs, *graph.initializers.values()}
    outer: dict[ir.Value, ir.Node | None] = {}
    needs: Needs = []
    for node in nodes:
        reads = _reads(node)
        needs.append({makers[value]: value for value in reads if value in makers})
        for value, reader in reads.items():
            if value not in makers and value not in given:
                outer.setdefault(value, reader)
    _rearrange(graph, nodes, needs)
    for value in graph.outputs:
        if value not in makers and value not in given:
            outer.setdefault(value, None)
    return outer


def _rearrange(graph: ir.Graph, nodes: list[ir.Node], needs: Needs) -> None:
    order = _order(needs)
    if len(order) < len(nodes):
        raise _cycle(graph, nodes, needs, set(order))
    if order != list(range(len(nodes))):
        graph.extend([nodes[index] for index in order])


def _reads(node: ir.Node) -> dict[ir.Value, ir.Node | None]:
    reads: dict[ir.Value, ir.Node | None] = {v: node for v in node.inputs if v is not None}
    for inner in subgraphs(node):
        for value, reader in _sort(inner).items():
            reads.setdefault(value, reader or node)
    return reads


def _order(needs: Needs) -> list[int]:
    """Return the positions in a sorted order that is as near to the given one as can be."""
    readers: list[list[int]] = [[] for _ in needs]
    for index, found in enumerate(needs):
        for maker in found:
            readers[maker].append(index)
    missing = [len(found) for found in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order


def _cycle(
    graph: ir.Graph, nodes: list[ir.Node], needs: Needs, sorted_ones: set[int]
) -> GraphError:
    """Return the error that names the tensors of one cycle."""
    index = next(i for i in range(len(nodes)) if i not in sorted_ones)
    seen: dict[int, int] = {}
    values: list[ir.Value] = []
    while index not in seen:
        seen[index] = len(values)
        maker = next(maker for maker in needs[index] if maker not in sorted_ones)
        values.append(needs[index][maker])
        index = maker
    names = [f"'{value.name}'" for value in reversed(values[seen[index] :])]
    if len(names) == 1:
        problem = f"{_node(nodes[index])} reads its own output {names[0]}"
    else:
        shown = names if len(names) <= _SHOWN else [*names[:_SHOWN], f"… ({len(names)} in all)"]
        problem = f"the tensors {' -> '.join([*shown, names[0]])} need each other"
    return GraphError(
        f"Graph '{graph.name}' has a cycle: {problem}. Only a Loop or Scan can repeat; "
        "break the cycle."
    )
