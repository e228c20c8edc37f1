"""Refusing models that break ONNX's rules for names and for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from whileback.errors import GraphError
from whileback.graph.names import label
from whileback.graph.schemas import problem
from whileback.graph.scopes import subgraphs, walk

__all__ = ["check_inputs", "check_names", "check_operators"]


def check_names(model: ir.Model) -> None:
    """Check that every name is defined once in its graph, and that no node redefines an outer one.

    Inputs and initializers of a subgraph may have the name of an outer value and hide it; outputs
    of nodes may not. Subgraphs beside each other may use the same names.

    Raises: GraphError.
    """
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        _check(graph, Counter())


def check_inputs(graph: ir.Graph) -> None:
    """Check that every input of a main graph has a type. Raises: GraphError."""
    for value in graph.inputs:
        if value.dtype in (None, ir.DataType.UNDEFINED):
            raise GraphError(
                f"Input '{value.name}' of graph '{graph.name}' has no type. Declare one, such as "
                "FLOAT[N,3]."
            )


def check_operators(graph: ir.Graph, opset: int | None = None, assumed: int | None = None) -> None:
    """Check that the nodes of the default domain have the form that ONNX defines for them.

    With an `opset`, the one that all nodes have, types of values are checked as well; without,
    each node is held against its own opset (`node.version`), or the `assumed` one.

    Raises: GraphError for an unknown operator, a wrong number of inputs, a wrong attribute or a
    wrong type.
    """
    for node in walk(graph):
        version = opset or node.version or assumed
        if node.domain or version is None:
            continue
        wrong = problem(node, version, types=opset is not None, early=True)
        if wrong is not None:
            raise GraphError(
                f"Node {label(node)} (ai.onnx@{version}::{node.op_type}) {wrong}. "
                "Correct the model."
            )


def _check(graph: ir.Graph, outer: Counter[str | None]) -> None:
    own: set[str | None] = set()
    for value in _given(graph):
        _add(value, own, f"Graph '{graph.name}' has '{value.name}' twice among its inputs")
    outer.update(own)
    for node in graph:
        for inner in subgraphs(node):
            _check(inner, outer)
        _check_node(node, graph, own, outer)
    outer.subtract(own)


def _given(graph: ir.Graph) -> Iterable[ir.Value]:
    return dict.fromkeys((*graph.inputs, *graph.initializers.values()))


def _check_node(
    node: ir.Node, graph: ir.Graph, own: set[str | None], outer: Counter[str | None]
) -> None:
    for value in node.outputs:
        if not value.name:
            continue
        where = f"Node {label(node)} ({node.op_type}) in graph '{graph.name}'"
        if outer[value.name] and value.name not in own:
            raise GraphError(
                f"{where} defines '{value.name}', which a graph around it defines already; "
                "a name must have one definition. Rename this output."
            )
        _add(value, own, f"{where} defines '{value.name}', which the graph has already")
        outer[value.name] += 1


def _add(value: ir.Value, own: set[str | None], problem: str) -> None:
    if value.name and value.name in own:
        raise GraphError(f"{problem}; a name must have one definition. Rename one of them.")
    own.add(value.name)
