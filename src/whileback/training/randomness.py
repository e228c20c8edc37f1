"""Random numbers in a step: which `Dropout` drops, and by what every node draws that does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.loops import More, extend_loop
from whileback.graph.moving import put_first, taken_out
from whileback.graph.randomness import draws, may_draw
from whileback.graph.scopes import is_loop, is_standard, loop_view, subgraphs, walk
from whileback.training.defaults import default
from whileback.training.draws import Source, draw
from whileback.training.parameters import fitting
from whileback.training.philox import high_word, low_word, round_keys, word

__all__ = ["Dropping", "Randomness", "draw_by_counting", "hides_draws", "set_dropout"]

# By patterns of the names of nodes, or for all of them: whether they drop, or how much.
Dropping = bool | float | Mapping[str, bool | float] | None

# A place in nested loops is a number to this base (Knuth's for MMIX), modulo 2⁶⁴. By its spectral
# test, no two are equal within 2³⁰ trips of one loop, 2²⁰ of each of two, 2¹⁴ of each of three.
_BASE = 6364136223846793005


@dataclass(frozen=True)
class Randomness:
    """What draws depend on, INT64[]: `seed` is an input, `calls` is how many were made before."""

    seed: ir.Value
    calls: ir.Value


def hides_draws(node: ir.Node) -> bool:
    """Tell whether a node is to be written as other ones, since these draw."""
    if (node.domain, node.op_type) == ("com.microsoft", "BiasDropout"):
        return True
    inside = (each for graph in subgraphs(node) for each in walk(graph))
    return is_standard(node, "SequenceMap") and any(may_draw(each) for each in inside)


def set_dropout(op: Builder, dropping: Dropping) -> None:
    """Let the `Dropout` nodes of a graph, at any depth, drop or not, as `dropping` says.

    Raises: ArgumentError for a pattern that fits no node, for a ratio outside of 0 ≤ r < 1, and
    where there is no such node.
    """
    if dropping is None:
        return
    nodes = {str(node.name): node for node in walk(op.graph) if is_standard(node, "Dropout")}
    if not nodes and dropping is not False:
        raise ArgumentError(
            f"dropout={dropping!r}, but model '{op.graph.name}' has no Dropout node. Export it for "
            "training, so that they stay in, or leave dropout= out."
        )
    if not isinstance(dropping, Mapping):
        for node in nodes.values():
            _set(op, node, dropping)
        return
    for pattern, ratio in dropping.items():
        for name in fitting([pattern], list(nodes), "dropout", "Dropout nodes"):
            _set(op, nodes[name], ratio)


def _set(op: Builder, node: ir.Node, ratio: bool | float) -> None:
    if not 0 <= ratio < 1 and ratio is not True:
        raise ArgumentError(
            f"dropout= has the ratio {ratio!r}, which is not from 0 to below 1. Give one that is, "
            "True for the node's own, or False."
        )
    own = node.inputs[1] if len(node.inputs) > 1 else None
    node.resize_inputs(3)
    new = own if ratio is True or not ratio else op.constant(np.float32(ratio))
    node.replace_input_with(1, new)
    node.replace_input_with(2, op.constant(np.array(bool(ratio))))


def draw_by_counting(op: Builder) -> Randomness | None:
    """Let all nodes of a graph that draw, at any depth, draw by counting; None if there are none.

    `seed` and `calls` become inputs of the graph, both with 0 as their default.
    """
    if not any(draws(node) for node in op.graph):
        return None
    randomness = Randomness(*(default(op, name, np.array(0)) for name in ("seed", "calls")))
    start = op.inside("start")
    seed = start.Cast(start.Reshape(randomness.seed, [1, 1]), to=int(ir.DataType.UINT64))
    keys = round_keys(start, start.Concat(low_word(start, seed), high_word(start, seed), axis=0))
    calls = start.Cast(start.Reshape(randomness.calls, [1, 1]), to=int(ir.DataType.UINT64))
    source = Source(keys, low_word(start, calls), word(start, [[0]]))
    _replace(op, source, 1, count())
    put_first(op.graph, taken_out(start.graph))
    return randomness


def _replace(op: Builder, source: Source, weight: int, numbers: count[int]) -> None:
    """Replace the nodes of a graph.

    Args:
        op: for the graph.
        source: its place says in which trips of the loops around the graph this is.
        weight: what the number of a node counts in its place.
        numbers: of nodes.
    """
    for node in [each for each in op.graph if draws(each)]:
        op.origin, op.role = node, "draw"
        if is_loop(node):
            _replace_in_loop(op, node, source, weight, numbers)
        elif subgraphs(node):
            for inner in subgraphs(node):
                _replace(op.within(inner), source, weight, numbers)
        else:
            _replace_node(op, node, source, next(numbers) * weight % 2**64)


def _replace_in_loop(
    op: Builder, node: ir.Node, source: Source, weight: int, numbers: count[int]
) -> None:
    body = node.attributes["body"].as_graph()
    trip = _trip(op, node)
    start = op.inside("start")
    number = start.Cast(start.Reshape(trip, [1, 1]), to=int(ir.DataType.UINT64))
    place = start.Add(start.Mul(source.place, word(start, _BASE)), number)
    inner = Source(source.keys, source.call, place)
    _replace(op.within(body), inner, weight * _BASE % 2**64, numbers)
    put_first(body, taken_out(start.graph))


def _trip(op: Builder, node: ir.Node) -> ir.Value:
    """Return the number of the trip inside of a loop; a `Scan` is made to carry it."""
    view = loop_view(node)
    if view.trip is not None:
        return view.trip
    trip = op.new_scalar("trip", ir.DataType.INT64)
    following = op.within(view.body).Add(trip, 1)
    _, (last,) = extend_loop(view, More(carried=[(op.constant(0), trip, following)]))
    last.name, last.type, last.shape = op.names.fresh("trips"), trip.type, trip.shape
    return trip


def _replace_node(op: Builder, node: ir.Node, source: Source, number: int) -> None:
    inside = op.inside("draw")
    place = inside.Add(source.place, word(inside, [[number]]))
    drawn = draw(inside, node, Source(source.keys, source.call, place))
    op.graph.insert_before(node, taken_out(inside.graph))
    for old, new in zip(node.outputs, drawn, strict=False):
        new.name, old.name = old.name, None
        new.type, new.shape = old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    discard(op.graph, node)
