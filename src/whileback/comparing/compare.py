"""Compares two models, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.comparing.constants import Constant, constants, shared_contents
from whileback.comparing.difference import Change, Difference, Part
from whileback.comparing.graphs import GraphComparison
from whileback.comparing.matching import Pairing
from whileback.comparing.weights import compare_weights, pair_by_name
from whileback.graph.scopes import STANDARD_DOMAINS
from whileback.graph.shapes import describe

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Two models side by side.

    Attributes:
        difference: what changed.
        nodes, values: those of the first model that have partners in the second, with these.
        details: how nodes of the first model changed that have other partners.
    """

    difference: Difference
    nodes: Mapping[ir.Node, ir.Node]
    values: Mapping[ir.Value, ir.Value]
    details: Mapping[ir.Node, tuple[str, ...]]


def compare(a: ir.Model, b: ir.Model) -> Comparison:
    """Return what changed from `a` to `b`, and what is what.

    Nodes are matched by what they compute, so that other names inside of the graphs, and another
    order of nodes, change nothing; names of inputs, outputs, functions and metadata count.
    Shapes of values inside, and the metadata and doc strings of nodes, are not looked at.
    """
    ours, theirs = (dict(_constants(model)) for model in (a, b))
    pairing = Pairing(shared_contents(ours, theirs))
    pair_by_name(ours, theirs, pairing)
    comparison = GraphComparison(pairing)
    comparison.graphs(a.graph, b.graph, "", named=True)
    comparison.functions(a, b)
    changes = (
        *_headers(a, b),
        *_ends("input", a.graph.inputs, b.graph.inputs),
        *_ends("output", a.graph.outputs, b.graph.outputs),
        *compare_weights(ours, theirs, pairing),
        *comparison.changes,
    )
    same = {"initializer": sum(v in pairing.contents for v in ours), "node": comparison.same}
    difference = Difference(changes, same, comparison.renamed)
    return Comparison(difference, pairing.nodes, pairing.values, comparison.details)


def _constants(model: ir.Model) -> Iterator[tuple[ir.Value, Constant]]:
    yield from constants(model.graph)
    for function in model.functions.values():
        yield from constants(function, f"function {function.name}")


def _headers(a: ir.Model, b: ir.Model) -> Iterator[Change]:
    pairs = {
        "IR version": (a.ir_version, b.ir_version),
        "producer": (a.producer_name, b.producer_name),
        "producer version": (a.producer_version, b.producer_version),
        "graph name": (a.graph.name, b.graph.name),
        **_by_key("opset", _opsets(a), _opsets(b)),
        **_by_key("metadata", a.metadata_props, b.metadata_props),
        **_by_key("graph metadata", a.graph.metadata_props, b.graph.metadata_props),
    }
    for name, (old, new) in pairs.items():
        if (old or None) != (new or None):
            yield _changed("model", name, old or None, new or None)


def _opsets(model: ir.Model) -> dict[str, int]:
    imports = model.opset_imports.items()
    return {"ai.onnx" if domain in STANDARD_DOMAINS else domain: v for domain, v in imports}


def _by_key(
    what: str, a: Mapping[str, str | int], b: Mapping[str, str | int]
) -> dict[str, tuple[str | int | None, str | int | None]]:
    return {f"{what} {key}": (a.get(key), b.get(key)) for key in {**a, **b}}


def _changed(part: Part, name: str, old: object, new: object, title: str = "") -> Change:
    title = title or name
    if old is None:
        return Change("added", part, name, f"{title}: {new}")
    if new is None:
        return Change("removed", part, name, f"{title}: {old}")
    return Change("changed", part, name, f"{title}: {old} → {new}")


def _ends(part: Part, a: Sequence[ir.Value], b: Sequence[ir.Value]) -> Iterator[Change]:
    """Yield what changed of the model's inputs or outputs."""
    ours, theirs = ({str(value.name): describe(value) for value in side} for side in (a, b))
    for name in {**ours, **theirs}:
        old, new = ours.get(name), theirs.get(name)
        if old != new:
            yield _changed(part, name, old, new, f"{part} {name}")
    kept, still = (
        [n for n in one if n in other] for one, other in ((ours, theirs), (theirs, ours))
    )
    if kept != still:
        text = f"order of {part}s: {', '.join(kept)} → {', '.join(still)}"
        yield Change("changed", part, f"order of {part}s", text)
