"""Random numbers in a step: which `Dropout` drops, and by what every node draws that does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from numbers import Real

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.gradient.memory.counting import count_ahead
from whileback.gradient.rules.controlflow.trips import runs_to_the_limit
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.dims import same_dim
from whileback.graph.loops import More, extend_loop
from whileback.graph.moving import put_first, taken_out
from whileback.graph.randomness import draws, may_draw
from whileback.graph.scopes import (
    LoopView,
    is_loop,
    is_standard,
    loop_view,
    operands,
    subgraphs,
    walk,
)
from whileback.training.defaults import default
from whileback.training.draws import Source, draw, draw_mask, known_ratio
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
    if ratio is not True and not (isinstance(ratio, Real) and 0 <= ratio < 1):
        raise ArgumentError(
            f"dropout= has the ratio {ratio!r}, which is not from 0 to below 1. Give one that is, "
            "True for the node's own, or False."
        )
    own = node.inputs[1] if len(node.inputs) > 1 else None
    node.resize_inputs(3)
    new = own if ratio is True or not ratio else op.constant(np.float32(ratio))
    node.replace_input_with(1, new)
    node.replace_input_with(2, op.constant(np.array(bool(ratio))))


def draw_by_counting(op: Builder, ahead: bool = False) -> Randomness | None:
    """Let all nodes of a graph that draw, at any depth, draw by counting; None if there are none.

    `seed` and `calls` become inputs of the graph, both with 0 as their default. With `ahead`, the
    masks of all trips of a loop are made at once before it, where that can be.
    """
    if not any(draws(node) for node in op.graph):
        return None
    randomness = Randomness(*(default(op, name, np.array(0)) for name in ("seed", "calls")))
    start = op.inside("start")
    seed, calls = (
        start.Cast(start.Reshape(value, [1, 1, 1]), to=int(ir.DataType.UINT64))
        for value in (randomness.seed, randomness.calls)
    )
    keys = round_keys(start, start.Concat(low_word(start, seed), high_word(start, seed), axis=0))
    call = start.Mul(low_word(start, calls), word(start, 1, 0))
    place = op.constant(np.zeros((1, 1), np.uint64))
    _Replacement(ahead).in_graph(op, Source(keys, call, place), 1)
    put_first(op.graph, taken_out(start.graph))
    return randomness


@dataclass(frozen=True)
class _Loop:
    """A loop that makes as many trips as is known before it.

    Attributes:
        before: emits before the loop.
        source: of all its trips.
        trip: the number of the trip, inside.
        read: what the loop reads.
    """

    before: Builder
    source: Source
    trip: ir.Value
    read: list[ir.Value]

    def mask(self, node: ir.Node, number: int) -> ir.Value | None:
        """Return a stack of the masks of a `Dropout`; None where that is unknown before."""
        X, ratio = [*node.inputs, None][:2]
        if X is None or not is_standard(node, "Dropout") or known_ratio(ratio) is None:
            return None
        shape = self._shape(X)
        if shape is None:
            return None
        return draw_mask(self.before, ratio, shape, self.source.at(self.before, number))

    def _shape(self, X: ir.Value) -> ir.Value | None:
        """Return a shape INT64[rank] that is the same in all trips, as it is before the loop."""
        if X.shape is None:
            return None
        sizes = [self._size(dim) for dim in X.shape]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return self.before.Concat(*known, axis=0) if known else self.before.value(np.zeros(0, int))

    def _size(self, dim: int | ir.SymbolicDim) -> ir.Value | None:
        if isinstance(dim, int):
            return self.before.value([dim])
        for value in self.read:
            for axis, other in enumerate(value.shape or ()):
                if same_dim(dim, other):
                    return self.before.dim(value, axis)
        return None


class _Replacement:
    """Replaces nodes that draw, each of which has a number."""

    def __init__(self, ahead: bool) -> None:
        self.ahead, self.numbers = ahead, count()

    def in_graph(self, op: Builder, source: Source, weight: int, loop: _Loop | None = None) -> None:
        """Replace the nodes of a graph.

        Args:
            op: for the graph.
            source: its place says in which trips of the loops around the graph this is.
            weight: what the number of a node counts in its place.
            loop: whose body this is.
        """
        for node in [each for each in op.graph if draws(each)]:
            op.origin, op.role = node, "draw"
            if is_loop(node):
                self._in_loop(op, node, source, weight)
            elif subgraphs(node):
                for inner in subgraphs(node):
                    self.in_graph(op.within(inner), source, weight)
            else:
                number = next(self.numbers) * weight % 2**64
                mask = None if loop is None else loop.mask(node, number)
                row = None if loop is None or mask is None else (mask, loop.trip)
                _replace(op, node, source, number, row)

    def _in_loop(self, op: Builder, node: ir.Node, source: Source, weight: int) -> None:
        trip, node = _with_trip(op, node)
        view = loop_view(node)
        start, before = op.inside("start"), op.inside("before")
        first = start.Mul(source.place, word(start, _BASE))
        number = start.Cast(start.Reshape(trip, [1, 1]), to=int(ir.DataType.UINT64))
        inner = replace(source, place=start.Add(first, number))
        loop = _loop(before, view, source, trip) if self.ahead else None
        self.in_graph(op.within(view.body), inner, weight * _BASE % 2**64, loop)
        put_first(view.body, taken_out(start.graph))
        assert node.graph is not None
        node.graph.insert_before(node, taken_out(before.graph))


def _loop(before: Builder, view: LoopView, source: Source, trip: ir.Value) -> _Loop | None:
    """Return a loop if its trips are counted before it, without running it."""
    if not view.scan_inputs and (view.limit is None or not runs_to_the_limit(view)):
        return None
    count = count_ahead(before, view)
    numbers = before.Cast(before.arange(count), to=int(ir.DataType.UINT64))
    first = before.Mul(source.place, word(before, _BASE))
    place = before.Add(first, before.Unsqueeze(numbers, [1]))
    read = [value for value in operands(view.node) if value is not None]
    return _Loop(before, replace(source, place=place, trips=count), trip, read)


def _with_trip(op: Builder, node: ir.Node) -> tuple[ir.Value, ir.Node]:
    """Return the number of the trip in a loop, and the loop: a `Scan` is made to carry it."""
    view = loop_view(node)
    if view.trip is not None:
        return view.trip, node
    trip = op.new_scalar("trip", ir.DataType.INT64)
    following = op.within(view.body).Add(trip, 1)
    _, (last,) = extend_loop(view, More(carried=[(op.constant(0), trip, following)]))
    last.name, last.type, last.shape = op.names.fresh("trips"), trip.type, trip.shape
    extended = last.producer()
    assert extended is not None
    return trip, extended


def _replace(
    op: Builder,
    node: ir.Node,
    source: Source,
    number: int,
    row: tuple[ir.Value, ir.Value] | None,
) -> None:
    """Replace a node; of a `Dropout` in a loop, a stack may have the mask."""
    inside = op.inside("draw")
    mask = None if row is None else inside.Gather(*row)
    drawn = draw(inside, node, source if row else source.at(inside, number), mask)
    op.graph.insert_before(node, taken_out(inside.graph))
    for old, new in zip(node.outputs, drawn, strict=False):
        new.name, old.name = old.name, None
        new.type, new.shape = old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    discard(op.graph, node)
