"""Weights and constants: initializers and what `Constant` nodes hold, wherever they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from whileback.comparing.signatures import tensor_key
from whileback.graph.names import node_name
from whileback.graph.scopes import bodies
from whileback.graph.tensors import constant_tensor

__all__ = [
    "AnyGraph",
    "Constant",
    "constants",
    "inside",
    "is_constant",
    "nodes",
    "shared_contents",
]

AnyGraph = ir.Graph | ir.Function


@dataclass(frozen=True)
class Constant:
    """A weight or constant, the bodies around it, and what tells whether another one equals it."""

    tensor: ir.TensorProtocol
    where: str
    contents: Hashable


def nodes(graph: AnyGraph) -> Iterator[ir.Node]:
    """Yield the nodes that are no constants."""
    return (node for node in graph if constant_tensor(node, {}) is None)


def is_constant(value: ir.Value) -> bool:
    """Tell whether a value is an initializer, or what a `Constant` node holds."""
    node = value.producer()
    return value.is_initializer() if node is None else constant_tensor(node, {}) is not None


def constants(graph: AnyGraph, where: str = "") -> Iterator[tuple[ir.Value, Constant]]:
    """Yield the weights and constants of a graph and of its bodies."""
    if isinstance(graph, ir.Graph):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value, _constant(value.const_value, where)
    for node in graph:
        tensor = constant_tensor(node, {})
        if tensor is not None:
            yield node.outputs[0], _constant(tensor, where)
        for name, inner in bodies(node).items():
            yield from constants(inner, inside(where, node, name))


def shared_contents(
    a: Mapping[ir.Value, Constant], b: Mapping[ir.Value, Constant]
) -> dict[ir.Value, Hashable]:
    """Return the contents of the constants that both models have."""
    ours, theirs = ({c.contents for c in side.values()} for side in (a, b))
    both = ours & theirs
    changed = {*_changed(a, b), *_changed(b, a)}
    every = (*a.items(), *b.items())
    return {v: c.contents for v, c in every if c.contents in both and v not in changed}


def _changed(a: Mapping[ir.Value, Constant], b: Mapping[ir.Value, Constant]) -> Iterator[ir.Value]:
    """Yield those of `a` that have changed though `b` holds their contents elsewhere.

    Many scales are all ones at first. If `a` has more of one contents than `b`, those have changed
    whose namesakes in `b` hold something else.
    """
    namesakes = {value.name: constant.contents for value, constant in b.items()}
    more = Counter(c.contents for c in a.values())
    more.subtract(Counter(c.contents for c in b.values()))
    for value, constant in a.items():
        contents = constant.contents
        if more[contents] > 0 and namesakes.get(value.name, contents) != contents:
            more[contents] -= 1
            yield value


def inside(where: str, node: ir.Node, body: str) -> str:
    """Return the place of a body of a node that stands at `where`."""
    name = node_name(node)
    return f"{where}/{name}/{body}" if where else f"{name}/{body}"


def _constant(tensor: ir.TensorProtocol, where: str) -> Constant:
    return Constant(tensor, where, ("constant", *tensor_key(tensor)))
