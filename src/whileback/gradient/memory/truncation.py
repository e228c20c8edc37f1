"""Truncated back-propagation: no cotangent is carried over more than some trips.

The trips are cut into segments of K, counted from the end, and the gradient stops between them:

    v₀ ─▶ [ trip 0 … T-2K-1 ] ─╫▶ [ T-2K … T-K-1 ] ─╫▶ [ T-K … T-1 ] ─▶ v_T

The last segment is a loop of its own, since nothing before it is kept or run again where only the
last values are differentiated. A loop of at most K trips stays as it is.

Source: Williams and Peng, "An Efficient Gradient-Based Algorithm for On-Line Training of Recurrent
Network Trajectories" (1990).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.gradient.memory.blocks import Cut, Way
from whileback.gradient.memory.segments import Part, Segmented
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.copying import copy_node

__all__ = ["Truncate", "Truncated", "check_truncation"]

Truncate = int | Mapping[str, int] | None
Values = Sequence[ir.Value]


def check_truncation(trips: int) -> int:
    """Return a number of trips if it is one.

    Raises:
        ArgumentError: it is below 1, or not whole.
    """
    if not isinstance(trips, int) or trips < 1:
        raise ArgumentError(f"truncate={trips!r}: give a whole number of trips from 1 on.")
    return trips


class Truncated:
    """A loop on its way to become several, between which no gradient flows.

    `pieces` are the loops that run its trips, once they are emitted; inner ones first.
    """

    def __init__(self, op: Builder, node: ir.Node, trips: int) -> None:
        """Take the body of the loop."""
        self.whole, last = copy_node(node, {}, op.names), copy_node(node, {}, op.names)
        self.before, self.last = Segmented(node), Segmented(last)
        self.trips = op.constant([trips])
        self.carried = self.before.carried
        self.pieces: list[ir.Node] = []

    def emit(self, op: Builder, count: ir.Value) -> Values:
        """Emit what computes the same in so many trips, INT64[1]."""
        if known_ints(count) is not None:
            return self._cut(op, count)
        longer = op.Greater(count, self.trips)
        return op.either(longer, lambda inside: self._cut(inside, count), self._whole)

    def _whole(self, op: Builder) -> Values:
        op.graph.append(self.whole)
        self.pieces.append(self.whole)
        return self.whole.outputs

    def _cut(self, op: Builder, count: ir.Value) -> Values:
        """Emit a loop over all segments but the last one, and then that."""
        begin = op.Sub(count, self.trips)
        cut = Cut(op, begin, self.trips, from_end=True)
        halves = [
            _halves(op, stack, way, self.trips if way[1] else begin, count)
            for stack, way in zip(
                self.before.starts[self.carried :], self.before.reads, strict=True
            )
        ]
        starts = [*self.before.starts[: self.carried], *(early for early, _ in halves)]
        early = self.before.emit_parts(
            op, Part(begin, op.constant([0])), starts, cut, self._segment
        )
        self._note(early)
        carried = [_stopped(op, value) for value in early[: self.carried]]
        late = self.last.emit_trips(
            op, Part(self.trips, begin), [*carried, *(rows for _, rows in halves)]
        )
        self._note(late)
        stacks = zip(early[self.carried :], late[self.carried :], self.before.writes, strict=True)
        return [
            *late[: self.carried],
            *(
                op.Concat(*((b, a) if reverse else (a, b)), axis=axis)
                for a, b, (axis, reverse) in stacks
            ),
        ]

    def _segment(self, op: Builder, part: Part, starts: Values) -> Values:
        """Emit one segment; the first of them starts with what the loop starts with."""
        carried = op.either(
            op.Greater(part.first, 0),
            lambda inside: [_stopped(inside, value) for value in starts[: self.carried]],
            lambda _: starts[: self.carried],
        )
        results = self.before.emit_trips(op, part, [*carried, *starts[self.carried :]])
        self._note(results)
        return results

    def _note(self, results: Values) -> None:
        node = results[0].producer()
        assert node is not None
        self.pieces.append(node)


def _halves(
    op: Builder, stack: ir.Value, way: Way, at: ir.Value, count: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return the rows of the earlier trips, and those of the later ones."""
    axis, reverse = way
    front, back = op.Slice(stack, [0], at, [axis]), op.Slice(stack, at, count, [axis])
    return (back, front) if reverse else (front, back)


def _stopped(op: Builder, value: ir.Value) -> ir.Value:
    """Return a copy of a value through which no gradient flows."""
    return op.standing_for("StopGradient", value)
