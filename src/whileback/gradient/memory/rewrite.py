"""Doing what the memory strategies say: loops become loops of loops, or are marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import onnx_ir as ir

from whileback.errors import ArgumentError, UnsupportedError
from whileback.gradient.builder import GradientBuilder
from whileback.gradient.memory.appends import appends
from whileback.gradient.memory.buffers import writes
from whileback.gradient.memory.counting import count_ahead
from whileback.gradient.memory.delayed import carry_rows
from whileback.gradient.memory.late import put_off
from whileback.gradient.memory.lists import read_as_tensors
from whileback.gradient.memory.marking import ImplicitLoops, mark_implicit
from whileback.gradient.memory.naming import by_loop
from whileback.gradient.memory.ranges import cut_ranges
from whileback.gradient.memory.segments import emit_segments
from whileback.gradient.memory.sequences import carry_as_tensors
from whileback.gradient.memory.strategies import Memory, Strategy, check_strategy, known_trips, plan
from whileback.gradient.memory.truncation import Truncate, Truncated, check_truncation
from whileback.gradient.memory.unchanged import capture_unchanged
from whileback.gradient.rules.controlflow.draws import drawn_inside, run_again, surface_draws
from whileback.gradient.rules.controlflow.frames import PLAN
from whileback.gradient.rules.controlflow.implicit import mark_of
from whileback.gradient.rules.controlflow.tape import hand_over
from whileback.gradient.rules.controlflow.trips import count_trips
from whileback.graph.builder import Builder
from whileback.graph.moving import taken_out
from whileback.graph.names import Names
from whileback.graph.origin import ORIGIN
from whileback.graph.randomness import draws
from whileback.graph.scopes import is_loop, loop_view, walk
from whileback.graph.shapes import Shapes

__all__ = ["LoopOptions", "prepare_loops"]

T = TypeVar("T")


@dataclass(frozen=True)
class LoopOptions:
    """What a caller says of loops; for each see `whileback.gradient`."""

    memory: Memory = None
    truncate: Truncate = None
    implicit: ImplicitLoops = None


def prepare_loops(graph: ir.Graph, names: Names, shapes: Shapes, said: LoopOptions) -> None:
    """Mark the loops of a graph in normal form, or rewrite them, as their gradients demand.

    Raises:
        ArgumentError: an unknown strategy or loop, or a budget that cannot be kept.
        UnsupportedError: a loop that cannot be split into segments.
    """
    _check(said)
    op = Builder(graph, names, shapes)
    every = [node for node in walk(graph) if is_loop(node)]
    mark_implicit(every, said.implicit)
    loops = [node for node in every if mark_of(node) is None]
    strategies: dict[ir.Node, Strategy] = _given(every, loops, said.memory, "memory")
    cuts = _given(every, loops, said.truncate, "truncate")
    # Of a truncated loop the gradient tells what is carried, and how.
    whole = [node for node in reversed(loops) if node not in cuts]
    renewed = {node: carry_as_tensors(op, carry_rows(op, node)) for node in whole}
    loops = [renewed.get(node, node) for node in loops]
    strategies = {renewed.get(node, node): meant for node, meant in strategies.items()}
    for prepare in (cut_ranges, capture_unchanged, read_as_tensors):
        prepare(op, _left(graph, loops))
    for find in (writes, appends):
        put_off(op, _left(graph, loops), find)
    loops = _left(graph, loops)
    # Inner loops first: an outer one may be copied.
    for node in reversed(loops):
        for piece in _truncate(op, node, cuts[node]) if node in cuts else [node]:
            _choose_memory(op, piece, strategies.get(node))


def _left(graph: ir.Graph, loops: Sequence[ir.Node]) -> list[ir.Node]:
    """Return the loops that are still there: what nobody reads goes when a body is rewritten."""
    there = set(walk(graph))
    return [node for node in loops if node in there]


def _check(said: LoopOptions) -> None:
    """Refuse what is said of all loops and makes no sense, also if there are none."""
    if said.memory is not None and not isinstance(said.memory, Mapping):
        check_strategy(said.memory)
    if said.truncate is not None and not isinstance(said.truncate, Mapping):
        check_truncation(said.truncate)


def _given(
    every: Sequence[ir.Node],
    loops: Sequence[ir.Node],
    said: T | Mapping[str, T] | None,
    argument: str,
) -> dict[ir.Node, T]:
    """Return by loop what is said of all, or of some by name; `loops` have a way back."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        return dict.fromkeys(loops, said)
    found = by_loop(every, said, argument)
    for node in found:
        if node not in loops:
            raise ArgumentError(
                f"{argument}= and implicit= both name loop '{node.name}', whose trips have no part "
                "in its gradient at the solution: leave it out of one of them."
            )
    return found


def _truncate(op: Builder, node: ir.Node, trips: int) -> Sequence[ir.Node]:
    """Let no gradient flow over more than so many trips; return the loops that run them."""
    check_truncation(trips)
    view = loop_view(node)
    known = known_trips(view)
    if not view.carries or (known is not None and known <= trips):
        return [node]
    pieces: list[ir.Node] = []

    def emit(inside: GradientBuilder, node: ir.Node, count: ir.Value) -> Sequence[ir.Value]:
        truncated = Truncated(inside, node, trips)
        results = truncated.emit(inside, count)
        pieces.extend(truncated.pieces)
        return results

    _replace(op, node, "truncated", emit)
    return pieces


def _choose_memory(op: Builder, node: ir.Node, strategy: Strategy | None) -> None:
    """Do what a strategy, or the default, means for a loop."""
    chosen = plan(loop_view(node), strategy)
    node.meta[PLAN] = chosen
    if not chosen.levels:
        return
    nodes = _replace(
        op,
        node,
        "segments",
        lambda inside, each, count: emit_segments(inside, each, count, chosen.levels),
    )
    (*_, outermost) = filter(is_loop, nodes)
    outermost.meta[PLAN] = node.meta.pop(PLAN)
    del outermost.metadata_props[ORIGIN]
    outermost.name, node.name = node.name, op.names.fresh(f"{node.name}/drawn")


def _replace(
    op: Builder,
    node: ir.Node,
    role: str,
    emit: Callable[[GradientBuilder, ir.Node, ir.Value], Sequence[ir.Value]],
) -> Sequence[ir.Node]:
    """Put nodes in the place of a loop, which stays only if it draws random numbers; return them.

    `emit` is given a builder, the loop or a copy that draws nothing, and how many trips it makes.
    """
    around, outputs = node.graph, list(node.outputs)
    assert isinstance(around, ir.Graph)
    readers = [(value, list(value.uses())) for value in outputs]
    apart = GradientBuilder(op.graph, op.names, op.shapes, set()).inside(role)
    apart.share_constants(op)
    apart.origin, apart.role = node, role
    if draws(node):
        count, replaced = _with_same_draws(apart, node)
    else:
        count, replaced = count_ahead(apart, loop_view(node)), node
    results = emit(apart, replaced, count)
    nodes = taken_out(apart.graph)
    around.insert_after(node, nodes)
    for (value, uses), result in zip(readers, results, strict=False):
        hand_over(around, value, uses, result)
    if replaced is node:
        around.remove(node)
    return nodes


def _with_same_draws(op: GradientBuilder, node: ir.Node) -> tuple[ir.Value, ir.Node]:
    """Return how many trips a loop makes, and a copy of it that is given what the loop draws."""
    surface_draws(op, [node])
    if drawn_inside(op, node) is None:
        raise UnsupportedError(
            f"Node '{node.name}' ({node.op_type}) cannot be split into segments: it draws random "
            "numbers whose shape changes from trip to trip. Draw as many numbers in every trip, "
            'or say memory="keep" for this loop, and no truncate=.'
        )
    *before, copy = run_again(op, node, {})
    op.graph.extend(before)
    return count_trips(op, loop_view(node)), copy
