"""Loops of loops: a loop of T trips becomes segments of about √T trips each.

The result computes the same. Its gradient needs little memory: the outer loop keeps what is carried
into each segment, and runs the segment again when its turn comes on the way back, so that only one
segment at a time keeps what its trips compute. L loops around the trips hold about
(L+1)·T^(1/(L+1)) frames, and trips run L more times.

Source: Griewank and Walther, "Evaluating Derivatives" (2nd ed., 2008), chapter 12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.memory.blocks import Cut, Way, filled, joined, shortened, split
from whileback.graph.builder import Builder
from whileback.graph.cleanup import prune
from whileback.graph.constants import known_ints
from whileback.graph.dims import without_axis
from whileback.graph.moving import taken_out
from whileback.graph.scopes import ScanInput, ScanOutput, loop_view
from whileback.graph.shapes import rank

__all__ = ["Emit", "Part", "Segmented", "emit_segments"]

Values = Sequence[ir.Value]


@dataclass(frozen=True)
class Part:
    """A stretch of a loop's trips: how many they are, and the number of the first; INT64[1]."""

    count: ir.Value
    first: ir.Value


# Emits a part of the trips: from what is carried into it, and stacks of the rows that they read.
Emit = Callable[[Builder, Part, Values], Values]


def emit_segments(op: Builder, node: ir.Node, count: ir.Value, levels: int) -> Values:
    """Emit nested loops that compute what a loop does; return what stands for its outputs.

    Args:
        op: emits into the graph around the loop.
        node: a `Loop` or a `Scan`, which loses its body to the innermost loop.
        count: how many trips it makes, INT64[1].
        levels: how many loops there will be around that one.

    Raises:
        UnsupportedError: for a stack along a negative axis if its rank is not known.
    """
    loop = Segmented(node)
    return loop.emit(op, Part(count, op.constant([0])), loop.starts, levels)


class Segmented:
    """A loop on its way to become several, each inside the other."""

    def __init__(self, node: ir.Node) -> None:
        self.view = view = loop_view(node)
        self.carried = len(view.carries)
        self.starts = [carry.initial for carry in view.carries]
        self.starts += [scan.stack for scan in view.scan_inputs]
        self.reads = [_way(node, scan) for scan in view.scan_inputs]
        self.writes = [_way(node, scan) for scan in view.scan_outputs]
        # A graph belongs to one node; this one is not needed any more.
        node.attributes.pop("body")
        node.resize_inputs(0)

    def emit(self, op: Builder, part: Part, starts: Values, levels: int) -> Values:
        """Emit some of the trips, with so many loops around them; return the loop's outputs.

        Args:
            op: emits into the graph around the outermost of them.
            part: which trips.
            starts: carried values before the first, and stacks of the rows that they read.
            levels: how many loops.
        """
        if not levels:
            return self.emit_trips(op, part, starts)
        cut = Cut(op, part.count, _length(op, part.count, levels))

        def segment(inside: Builder, part: Part, starts: Values) -> Values:
            return self.emit(inside, part, starts, levels - 1)

        return self.emit_parts(op, part, starts, cut, segment)

    def emit_parts(self, op: Builder, part: Part, starts: Values, cut: Cut, emit: Emit) -> Values:
        """Emit a loop over the segments of a part of the trips, each of which `emit` emits."""
        starts = self._stacks(starts, self.reads, lambda stack, way: split(op, stack, way, cut))
        inside = op.inside(f"{self.view.node.name}/segment")
        number = op.new_scalar("segment", ir.DataType.INT64)
        inputs = self._inputs(op, starts)
        size, offset = cut.segment(inside, number)
        segment = Part(size, inside.Add(part.first, offset))
        given = self._stacks(inputs, self.reads, lambda b, w: shortened(inside, b, w, cut, size))
        results = emit(inside, segment, given)
        rows = self._stacks(results, self.writes, lambda r, w: filled(inside, r, w, cut, size))
        inside.graph.outputs.extend(inside.own(rows))
        outputs = self._emit_loop(op, inside.graph, cut, number, inputs, starts)
        return self._stacks(outputs, self.writes, lambda b, way: joined(op, b, way, cut))

    def _stacks(
        self, values: Values, ways: Sequence[Way], change: Callable[[ir.Value, Way], ir.Value]
    ) -> list[ir.Value]:
        """Return carried values as they are, and the stacks behind them changed."""
        stacks = zip(values[self.carried :], ways, strict=True)
        return [*values[: self.carried], *(change(stack, way) for stack, way in stacks)]

    def _inputs(self, op: Builder, starts: Values) -> list[ir.Value]:
        """Return inputs for a body that carries and reads what a loop starts with."""
        known = [(carry.input, carry.input.type, carry.input.shape) for carry in self.view.carries]
        known += [
            (scan.row, block.type, without_axis(block.shape, axis))
            for scan, block, (axis, _) in zip(
                self.view.scan_inputs, starts[self.carried :], self.reads, strict=True
            )
        ]
        return [
            ir.Value(name=op.names.fresh(str(value.name)), type=type_, shape=shape)
            for value, type_, shape in known
        ]

    def _emit_loop(
        self,
        op: Builder,
        body: ir.Graph,
        cut: Cut,
        number: ir.Value,
        inputs: Values,
        starts: Values,
    ) -> Values:
        """Emit the loop over segments."""
        count = len(body.outputs)
        if self.view.proceed is None:
            body.inputs.extend([*inputs[: self.carried], number, *inputs[self.carried :]])
            numbers = op.arange(cut.segments)
            starts = [*starts[: self.carried], numbers, *starts[self.carried :]]
            return op.emit("Scan", starts, {"body": body, **self._ways(with_number=True)}, count)
        proceed = op.new_scalar("proceed", ir.DataType.BOOL)
        body.inputs.extend([number, proceed, *inputs])
        body.outputs.insert(0, proceed)
        return op.emit(
            "Loop", [op.Squeeze(cut.segments, [0]), None, *starts], {"body": body}, count
        )

    def _ways(self, with_number: bool) -> dict[str, int | list[int]]:
        """Return the attributes of a `Scan` that say how it reads and writes."""
        reads = [(0, False)] * with_number + self.reads
        ways: dict[str, int | list[int]] = {
            "num_scan_inputs": len(reads),
            "scan_input_axes": [axis for axis, _ in reads],
            "scan_input_directions": [int(reverse) for _, reverse in reads],
            "scan_output_axes": [axis for axis, _ in self.writes],
            "scan_output_directions": [int(reverse) for _, reverse in self.writes],
        }
        return {name: way for name, way in ways.items() if way}

    def emit_trips(self, op: Builder, part: Part, starts: Values) -> Values:
        """Emit the loop itself for some of its trips, which are counted: nothing else ends it."""
        body, count = self.view.body, len(self.view.node.outputs)
        if self.view.proceed is None:
            return op.emit("Scan", starts, {"body": body, **self._ways(with_number=False)}, count)
        body.outputs[0] = body.inputs[1]
        prune(body)
        _count_from(op, body, part.first)
        return op.emit("Loop", [op.Squeeze(part.count, [0]), None, *starts], {"body": body}, count)


def _way(node: ir.Node, scan: ScanInput | ScanOutput) -> Way:
    dims = rank(scan.stack)
    if scan.axis < 0 and dims is None:
        raise UnsupportedError(
            f"Node '{node.name}' ({node.op_type}) cannot be split into segments: its stack "
            f"'{scan.stack.name}' runs along axis {scan.axis}, and has a rank that is not known. "
            'Declare the shape, or say memory="keep" for this loop, and no truncate=.'
        )
    return scan.axis % dims if dims else scan.axis, scan.reverse


def _length(op: Builder, count: ir.Value, levels: int) -> ir.Value:
    """Return how many of so many trips make a segment that has `levels - 1` loops in it.

    A number that is known is cut into equal segments where that is not far off.
    """
    power = levels / (levels + 1)
    known = known_ints(count)
    if known is None:
        best = op.Ceil(op.Pow(op.Cast(count, to=int(ir.DataType.DOUBLE)), power))
        return op.Max(op.Cast(best, to=int(ir.DataType.INT64)), 1)
    wanted = max(1, ceil(known[0] ** power))
    near = range(ceil(wanted / sqrt(2)), int(wanted * sqrt(2)) + 1)
    even = [length for length in near if known[0] % length == 0]
    return op.constant([min(even, key=lambda length: abs(length - wanted), default=wanted)])


def _count_from(op: Builder, body: ir.Graph, first: ir.Value) -> None:
    """Let a body that counts its trips from zero count them from the number `first`, INT64[1]."""
    trip = body.inputs[0]
    if not trip.uses() and trip not in body.outputs:
        return
    uses, nodes = list(trip.uses()), taken_out(body)
    number = op.within(body).Add(trip, op.Squeeze(first, [0]))
    body.extend(nodes)
    for use in uses:
        use.node.replace_input_with(use.idx, number)
    for index, value in enumerate(body.outputs):
        if value is trip:
            body.outputs[index] = number
