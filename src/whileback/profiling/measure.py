"""Measures a model, node by node, and adds that up over trips."""

from __future__ import annotations

import timeit
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from whileback.engines import compile
from whileback.engines.base import Source
from whileback.engines.tracing import Event, trace
from whileback.errors import ArgumentError
from whileback.graph.copying import clone
from whileback.graph.names import node_name
from whileback.graph.origin import is_new, source
from whileback.graph.scopes import is_loop, subgraphs, walk
from whileback.profiling.profile import Cost, Profile
from whileback.profiling.trips import add_trips

__all__ = ["measure"]

Path = tuple[str, ...]


def measure(
    model: ir.Model,
    arguments: Mapping[str, Any],
    *,
    runs: int = 5,
    optimization: str = "all",
    threads: int = 1,
) -> Profile:
    """Return what each node of a model takes on ONNX Runtime, in the fastest of some runs.

    Raises:
        ArgumentError: an argument or option is wrong.
        EngineError: ONNX Runtime is missing, refuses the model, or fails.
    """
    if runs < 1:
        raise ArgumentError(f"runs={runs!r} is no number of runs. Give one from 1.")
    named = _named(model)
    options: dict[str, Any] = {"optimization": optimization, "threads": threads}
    plain = _plain(named, arguments, runs, options)
    # The fastest run is the one that the rest of the machine has disturbed least.
    traced = trace(Source(named), arguments, runs=runs, **options)
    events = min(traced, key=lambda run: run[-1].duration)
    costs = dict(_places(named.graph))
    _add(costs, events)
    add_trips(costs, events)
    ran = tuple(cost for cost in costs.values() if cost.count)
    return Profile(str(model.graph.name), ran, events[-1].duration, plain, runs)


def _plain(
    model: ir.Model, arguments: Mapping[str, Any], runs: int, options: Mapping[str, Any]
) -> float:
    """Return the time of the fastest run in microseconds if nothing is noted."""
    compiled = compile(model, "onnxruntime", **options)
    compiled(arguments)
    return min(timeit.repeat(lambda: compiled(arguments), number=1, repeat=runs)) * 1e6


def _named(model: ir.Model) -> ir.Model:
    """Return a copy in which each node has a name of its own, by which events are told apart."""
    copy = clone(model)
    taken: set[str] = set()
    for node in walk(copy.graph):
        name = node_name(node) or node.op_type
        unique, number = name, 1
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        taken.add(unique)
        node.name = unique
    return copy


def _places(graph: ir.Graph, path: Path = ()) -> Iterator[tuple[str, Cost]]:
    """Yield a cost of nothing for each node, with the nodes around it."""
    for node in graph:
        name = str(node.name)
        yield name, Cost(name, node.op_type, path, source(node), is_new(node), is_loop(node))
        for inner in subgraphs(node):
            yield from _places(inner, (*path, name))


def _add(costs: dict[str, Cost], events: Sequence[Event]) -> None:
    """Add the events of one run to the costs of their nodes.

    A node that ONNX Runtime has made is found to stand in the first node around it in time.
    """
    strangers: list[Event] = []
    for event in events:
        known = costs.get(event.node)
        if known is None or known.is_made:
            strangers.append(event)
            continue
        known.add(event)
        if event.operator in ("Loop", "Scan", "If"):
            inside = [other for other in strangers if other.start >= event.start]
            del strangers[len(strangers) - len(inside) :]
            _add_strangers(costs, inside, (*known.path, known.name))
    _add_strangers(costs, [event for event in strangers if event.node], ())


def _add_strangers(costs: dict[str, Cost], events: Sequence[Event], path: Path) -> None:
    for event in events:
        cost = costs.setdefault(
            event.node, Cost(event.node, event.operator, path, event.node, is_made=True)
        )
        cost.add(event)
