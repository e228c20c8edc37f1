"""Compares two graphs, and the bodies inside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import onnx_ir as ir

from whileback.comparing.constants import AnyGraph, inside, is_constant, nodes
from whileback.comparing.difference import Change, Kind
from whileback.comparing.matching import Pairing, ends, match
from whileback.comparing.signatures import attribute_key, operator_key
from whileback.graph.names import node_name
from whileback.graph.printing import attribute_text, node_text
from whileback.graph.scopes import bodies

__all__ = ["GraphComparison"]


class GraphComparison:
    """Goes through two models side by side, and collects what changed."""

    def __init__(self, pairing: Pairing) -> None:
        self.changes: list[Change] = []
        self.details: dict[ir.Node, tuple[str, ...]] = {}
        self.same = 0
        self.renamed = 0
        self._pairing = pairing

    def functions(self, a: ir.Model, b: ir.Model) -> None:
        """Compare the functions of two models."""
        for key in {**a.functions, **b.functions}:
            name = "::".join(part for part in key if part)
            old, new = a.functions.get(key), b.functions.get(key)
            if old is None or new is None:
                kind: Kind = "added" if old is None else "removed"
                self.changes.append(Change(kind, "function", name, f"function {name}"))
            else:
                self.graphs(old, new, f"function {name}", named=False)

    def graphs(self, a: AnyGraph, b: AnyGraph, where: str, *, named: bool) -> None:
        """Compare two graphs, and the bodies inside them."""
        match(a, b, self._pairing, named=named)
        pairs = self._pairing.nodes
        for node in nodes(a):
            if node in pairs:
                self._nodes(node, pairs[node], where)
            else:
                self._node("removed", node, where)
        for node in nodes(b):
            if not self._pairing.has_partner(node):
                self._node("added", node, where)
        self._results(a, b, where, named)

    def _node(self, kind: Kind, node: ir.Node, where: str) -> None:
        name = node_name(node)
        self.changes.append(Change(kind, "node", name, node_text(node), where))

    def _nodes(self, a: ir.Node, b: ir.Node, where: str) -> None:
        details = tuple(self._details(a, b))
        self.renamed += sum(
            one.name != other.name for one, other in zip(a.outputs, b.outputs, strict=False)
        )
        name = node_name(a)
        if details:
            self.details[a] = details
            self.changes.append(Change("changed", "node", name, node_text(a), where, details))
        else:
            self.same += 1
        for (body, inner), other in zip(bodies(a).items(), bodies(b).values(), strict=False):
            self.graphs(inner, other, inside(where, a, body), named=False)

    def _details(self, a: ir.Node, b: ir.Node) -> Iterator[str]:
        if operator_key(a) != operator_key(b):
            yield f"{a.op_type} → {b.op_type}"
        for name in {**a.attributes, **b.attributes}:
            old, new = a.attributes.get(name), b.attributes.get(name)
            if (old and attribute_key(old)) != (new and attribute_key(new)):
                yield f"{name}: {_value(old)} → {_value(new)}"
        for place, (one, other) in enumerate(zip_longest(a.inputs, b.inputs)):
            if not self._pairing.are_same(one, other):
                yield f"input {place}: {_from_to(one, other)}"
        if len(a.outputs) != len(b.outputs):
            yield f"outputs: {len(a.outputs)} → {len(b.outputs)}"

    def _results(self, a: AnyGraph, b: AnyGraph, where: str, named: bool) -> None:
        """Compare which values two graphs give back."""
        for one, other in ends(a.outputs, b.outputs, named):
            sources = (one.producer(), other.producer())
            if not self._pairing.are_same(one, other) and self._are_paired(*sources):
                text = f"result {one.name}: another value"
                if not named:
                    text = f"result: {one.name} → {other.name}"
                self.changes.append(Change("changed", "node", str(one.name), text, where))
        if not named and len(a.outputs) != len(b.outputs):
            text = f"results: {len(a.outputs)} → {len(b.outputs)}"
            self.changes.append(Change("changed", "node", "results", text, where))

    def _are_paired(self, a: ir.Node | None, b: ir.Node | None) -> bool:
        """Tell whether neither node is told of as added or removed."""
        ours = a is None or a in self._pairing.nodes
        return ours and (b is None or self._pairing.has_partner(b))


def _value(attribute: ir.Attr | None) -> str:
    return "not set" if attribute is None else attribute_text(attribute)


def _from_to(a: ir.Value | None, b: ir.Value | None) -> str:
    """Return two values by their names, or by what they are where that is the same name."""
    if a is not None and b is not None and a.name == b.name:
        return f"{a.name}, {_kind(a)} → {_kind(b)}"
    return " → ".join("none" if value is None else str(value.name) for value in (a, b))


def _kind(value: ir.Value) -> str:
    if is_constant(value):
        return "a constant"
    node = value.producer()
    return "an input" if node is None else f"made by {node.op_type}"
