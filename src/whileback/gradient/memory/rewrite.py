"""Doing what the memory strategies say: loops become loops of loops, or are marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from whileback.errors import ArgumentError, UnsupportedError, nearest
from whileback.gradient.builder import GradientBuilder
from whileback.gradient.memory.buffers import write_after_loops
from whileback.gradient.memory.counting import count_ahead
from whileback.gradient.memory.segments import emit_segments
from whileback.gradient.memory.strategies import Memory, Strategy, plan
from whileback.gradient.rules.controlflow.draws import drawn_inside, run_again, surface_draws
from whileback.gradient.rules.controlflow.frames import PLAN, Plan
from whileback.gradient.rules.controlflow.tape import hand_over
from whileback.gradient.rules.controlflow.trips import count_trips
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.origin import ORIGIN
from whileback.graph.randomness import draws
from whileback.graph.scopes import is_loop, loop_view, walk
from whileback.graph.shapes import Shapes

__all__ = ["choose_memory"]


def choose_memory(graph: ir.Graph, names: Names, shapes: Shapes, memory: Memory) -> None:
    """Rewrite the loops of a graph in normal form as the memory for their gradients demands.

    Raises:
        ArgumentError: an unknown strategy or loop, or a budget that cannot be kept.
        UnsupportedError: a loop that cannot be split into segments.
    """
    loops = [node for node in walk(graph) if is_loop(node)]
    given = _strategies(loops, memory)
    write_after_loops(Builder(graph, names, shapes), loops)
    plans = {node: plan(loop_view(node), given.get(node)) for node in loops}
    for node, chosen in plans.items():
        node.meta[PLAN] = chosen
    # Inner loops first: an outer one may be copied.
    for node, chosen in reversed(plans.items()):
        if chosen.levels:
            _segment(GradientBuilder(graph, names, shapes, set()), node, chosen)


def _strategies(loops: Sequence[ir.Node], memory: Memory) -> dict[ir.Node, Strategy]:
    """Return what is said about each loop, by its own name or that of one of its outputs."""
    if memory is None:
        return {}
    if not isinstance(memory, Mapping):
        return dict.fromkeys(loops, memory)
    known = {name: node for node in loops for name in [node.name, *(v.name for v in node.outputs)]}
    for name in memory:
        if name not in known:
            hint = (
                nearest(name, [str(each) for each in known]) if known else "the model has no loops"
            )
            raise ArgumentError(
                f"memory= names '{name}', but no loop of the model has that name or an output of "
                f"that name; {hint}"
            )
    return {known[name]: strategy for name, strategy in memory.items()}


def _segment(op: GradientBuilder, node: ir.Node, chosen: Plan) -> None:
    """Put nested loops in the place of a loop, which stays only if it draws random numbers."""
    around, outputs = node.graph, list(node.outputs)
    assert isinstance(around, ir.Graph)
    readers = [(value, list(value.uses())) for value in outputs]
    apart = op.inside("segments")
    apart.origin, apart.role = node, "segments"
    if draws(node):
        count, segmented = _with_same_draws(apart, node)
    else:
        count, segmented = count_ahead(apart, loop_view(node)), node
    results = emit_segments(apart, segmented, count, chosen.levels)
    nodes = list(apart.graph)
    apart.graph.remove(nodes)
    around.insert_after(node, nodes)
    for (value, uses), result in zip(readers, results, strict=False):
        hand_over(around, value, uses, result)
    (*_, outermost) = filter(is_loop, nodes)
    outermost.meta[PLAN] = node.meta.pop(PLAN)
    del outermost.metadata_props[ORIGIN]
    outermost.name, node.name = node.name, op.names.fresh(f"{node.name}/drawn")
    if segmented is node:
        around.remove(node)


def _with_same_draws(op: GradientBuilder, node: ir.Node) -> tuple[ir.Value, ir.Node]:
    """Return how many trips a loop makes, and a copy of it that is given what the loop draws."""
    surface_draws(op, [node])
    if drawn_inside(op, node) is None:
        raise UnsupportedError(
            f"Node '{node.name}' ({node.op_type}) cannot be split into segments: it draws random "
            "numbers whose shape changes from trip to trip. Draw as many numbers in every trip, "
            'or say memory="keep" for this loop.'
        )
    *before, copy = run_again(op, node, {})
    op.graph.extend(before)
    return count_trips(op, loop_view(node)), copy
