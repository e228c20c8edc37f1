"""Measures a model, node by node, and adds that up over trips and runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from whileback.engines import compile
from whileback.engines.base import Source
from whileback.engines.tracing import Event, trace
from whileback.errors import ArgumentError
from whileback.graph.origin import is_new, source
from whileback.graph.scopes import is_loop, subgraphs, walk
from whileback.profiling.profile import Cost, Profile

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
    """Return what each node of a model takes on ONNX Runtime, as a mean over some runs.

    Raises:
        ArgumentError: an argument or option is wrong.
        EngineError: ONNX Runtime is missing, refuses the model, or fails.
    """
    if runs < 1:
        raise ArgumentError(f"runs={runs!r} is no number of runs. Give one from 1.")
    named = _named(model)
    options: dict[str, Any] = {"optimization": optimization, "threads": threads}
    plain = _plain(named, arguments, runs, options)
    costs, count, total = dict(_places(named.graph)), 0, 0
    for events in trace(Source(named), arguments, runs=runs, **options):
        count += 1
        total += events[-1].duration
        _add(costs, events)
    ran = tuple(cost.per_run(count) for cost in costs.values() if cost.count)
    return Profile(str(model.graph.name), ran, total / count, plain, count)


def _plain(
    model: ir.Model, arguments: Mapping[str, Any], runs: int, options: Mapping[str, Any]
) -> float:
    """Return the mean time of a run in microseconds if nothing is noted."""
    compiled = compile(model, "onnxruntime", **options)
    compiled(arguments)
    start = time.perf_counter()
    for _ in range(runs):
        compiled(arguments)
    return (time.perf_counter() - start) / runs * 1e6


def _named(model: ir.Model) -> ir.Model:
    """Return a copy in which each node has a name of its own, by which events are told apart."""
    copy = model.clone()
    taken: set[str] = set()
    for node in walk(copy.graph):
        name = node.name or next((v.name for v in node.outputs if v.name), "") or node.op_type
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
