"""The table of definitions, and the builder that they are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.shapes import Shapes

__all__ = ["UNDEFINED", "Definer", "Definition", "definition", "definitions"]

Definition = Callable[..., Any]
D = TypeVar("D", bound=Definition)

# Where a node remembers why it has no definition though its operator has.
UNDEFINED = "whileback.undefined"
# Marks a node that only makes what its definition leaves to it.
DEFINED = "whileback.defined"

_DEFINITIONS: dict[tuple[str, str], Definition] = {}


def definition(domain: str, op_type: str) -> Callable[[D], D]:
    """Register the decorated function as what an operator is made of.

    It is called as `definition(op, node, *inputs)`: `op` emits operators of the default domain,
    `inputs` are those of the node, each of a known type, None for one that is left out; the node
    has the defaults that ONNX gives its attributes. It returns what equals the node's outputs, in
    their order, None for one that nobody asks for, or that the node goes on making; a definition
    with one output may return the value itself.
    """

    def register(function: D) -> D:
        _DEFINITIONS[domain, op_type] = function
        return function

    return register


def definitions() -> Mapping[tuple[str, str], Definition]:
    """Return all that is registered, by domain and name."""
    return _DEFINITIONS


class Definer(Builder):
    """Emits what a node is made of, as part of the model itself, named after the node."""

    def __init__(self, graph: ir.Graph, names: Names, shapes: Shapes) -> None:
        super().__init__(graph, names, shapes)
        self.defined: ir.Node | None = None

    def _prefix(self) -> str:
        return "" if self.defined is None else f"{self.defined.name}/"

    def replace(self, node: ir.Node, define: Definition) -> bool:
        """Put what the node is made of in its place; tell whether all types needed are known."""
        untyped = any(value is not None and value.type is None for value in node.inputs)
        if untyped or DEFINED in node.meta:
            return False
        inside = self.inside("definition")
        inside.defined = node
        try:
            results = define(inside, node, *node.inputs)
        except UnsupportedError as error:
            # That matters only where a gradient meets the node.
            node.meta[UNDEFINED] = str(error)
            return False
        if isinstance(results, ir.Value):
            results = [results]
        _substitute(inside, node, results)
        graph, made = node.graph, list(inside.graph)
        assert graph is not None
        inside.graph.remove(made)
        graph.insert_before(node, made)
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
            return True
        node.meta[DEFINED] = True
        for value in node.outputs:
            value.name = value.name or self.names.fresh(f"{node.name}/unused")
        return True


def _substitute(inside: Builder, node: ir.Node, results: Sequence[ir.Value | None]) -> None:
    """Give the results the names, types and shapes of the outputs, and their readers."""
    pairs = [
        (old, new) for old, new in zip(node.outputs, results, strict=False) if old.name and new
    ]
    named = inside.own(new for _, new in pairs)
    for (old, _), new in zip(pairs, named, strict=True):
        new.name, old.name = old.name, None
        new.type, new.shape = old.type or new.type, old.shape or new.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
