"""Stacks of rows cut into blocks of one length, and put together again."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints

__all__ = ["Cut", "Way", "filled", "joined", "shortened", "split", "with_zeros"]


# An axis of rows, and whether the first trip has the last of them.
Way = tuple[int, bool]


class Cut:
    """`count` trips in `segments` of equal `length`, one of which is shorter unless `even`.

    That is the last one, or the first one if they are counted from the end. All are INT64[1].
    """

    def __init__(
        self, op: Builder, count: ir.Value, length: ir.Value, from_end: bool = False
    ) -> None:
        self.count = count
        self.length = length
        self.from_end = from_end
        known, each = known_ints(count), known_ints(length)
        self.even = bool(known and each and known[0] % each[0] == 0)
        if known and each:
            self.segments = op.constant(np.array([-(-known[0] // each[0])], np.int64))
        else:
            self.segments = op.Div(op.Sub(op.Add(count, length), 1), length)

    def segment(self, op: Builder, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return how many trips the segment of a number has, and how many there are before it."""
        offset = op.Mul(number, self.length)
        if self.even:
            return self.length, offset
        if self.from_end:
            begin = op.Sub(offset, self.missing(op))
            offset = op.Max(begin, 0)
            return op.Sub(op.Add(begin, self.length), offset), offset
        return op.Min(self.length, op.Sub(self.count, offset)), offset

    def missing(self, op: Builder) -> ir.Value:
        """Return how many trips one segment has less than the others."""
        return op.Sub(op.Mul(self.segments, self.length), self.count)

    def filling(self, way: Way) -> Way:
        """Return the axis of rows, and whether a segment is filled up in front of them."""
        axis, reverse = way
        return axis, reverse != self.from_end


def split(op: Builder, stack: ir.Value, way: Way, cut: Cut) -> ir.Value:
    """Return the stack with an axis of segments before that of rows, filled up with zeros.

    The last segment is filled at its end, the first one at its beginning; the other way round if
    trips go from the stack's end.
    """
    if not cut.even:
        stack = with_zeros(op, stack, cut.filling(way), cut.missing(op))
    axis, _ = way
    parts = [*_dims(op, stack, 0, axis), cut.segments, cut.length, *_dims(op, stack, axis + 1)]
    return op.Reshape(stack, op.Concat(*parts, axis=0), allowzero=1)


def shortened(op: Builder, block: ir.Value, way: Way, cut: Cut, size: ir.Value) -> ir.Value:
    """Return the rows of a block without those that only fill it up."""
    if cut.even:
        return block
    axis, at_front = cut.filling(way)
    begin = op.Sub(cut.length, size) if at_front else np.zeros(1, np.int64)
    return op.Slice(block, begin, cut.length if at_front else size, [axis])


def filled(op: Builder, rows: ir.Value, way: Way, cut: Cut, size: ir.Value) -> ir.Value:
    """Return the rows of a segment as a block, filled up with zeros."""
    if cut.even:
        return rows
    return with_zeros(op, rows, cut.filling(way), op.Sub(cut.length, size))


def joined(op: Builder, blocks: ir.Value, way: Way, cut: Cut) -> ir.Value:
    """Return the stack of which these are the blocks, stacked along the same axis."""
    axis, at_front = cut.filling(way)
    total = cut.count if cut.even else op.Mul(cut.segments, cut.length)
    parts = [*_dims(op, blocks, 0, axis), total, *_dims(op, blocks, axis + 2)]
    stack = op.Reshape(blocks, op.Concat(*parts, axis=0), allowzero=1)
    if cut.even:
        return stack
    begin = op.Sub(total, cut.count) if at_front else np.zeros(1, np.int64)
    return op.Slice(stack, begin, total if at_front else cut.count, [axis])


def with_zeros(op: Builder, stack: ir.Value, way: Way, missing: ir.Value) -> ir.Value:
    """Return the stack with so many more rows, INT64[1], of zeros."""
    assert stack.dtype is not None
    axis, at_front = way
    parts = [*_dims(op, stack, 0, axis), missing, *_dims(op, stack, axis + 1)]
    zero = ir.tensor(np.zeros(1, stack.dtype.numpy()))
    zeros = op.ConstantOfShape(op.Concat(*parts, axis=0), value=zero)
    return op.Concat(*((zeros, stack) if at_front else (stack, zeros)), axis=axis)


def _dims(op: Builder, value: ir.Value, start: int, end: int | None = None) -> list[ir.Value]:
    """Return some of the value's sizes as one INT64 tensor, or nothing if there are none."""
    rank = None if value.shape is None else len(value.shape)
    if start in (end, rank):
        return []
    return [op.Shape(value, start=start, end=end)]
