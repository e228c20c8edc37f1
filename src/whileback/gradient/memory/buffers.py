"""Buffers that loops write row by row: the rows are stacked, and written once after the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx_ir as ir

from whileback.gradient.memory.blocks import with_zeros
from whileback.gradient.memory.late import is_read
from whileback.gradient.rules.controlflow.scattered import in_a_row
from whileback.gradient.rules.controlflow.writes import Write, small_writes
from whileback.graph.builder import Builder
from whileback.graph.scopes import Carry, LoopView
from whileback.graph.shapes import rank, static_shape

__all__ = ["writes"]


@dataclass(frozen=True)
class _Late:
    """A write to a buffer that no trip reads."""

    write: Write

    @property
    def carry(self) -> Carry:
        """The buffer."""
        return self.write.carry

    @property
    def node(self) -> ir.Node:
        """The node that writes to it."""
        return self.write.node

    def rows(self, _: Builder) -> list[ir.Value]:
        """Return the places, and what is written there."""
        return [self.write.indices, self.write.updates]

    def result(self, op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        """Emit the buffer as all trips leave it."""
        return _written(op, self.write, *stacks)


def writes(view: LoopView) -> Iterator[_Late]:
    """Yield the writes to buffers that the loop never reads."""
    for write in small_writes(view):
        is_number = write.carry.initial.dtype not in (None, ir.DataType.STRING)
        is_only_written = not is_read(view.body, write.carry, write.node, 0, keeps_shape=True)
        if write.replaces and is_number and is_only_written:
            yield _Late(write)


def _written(op: Builder, write: Write, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """Write all trips' parts to the buffer. Of those at one place only the last is written there.

    The others are written to a row behind the buffer.
    """
    initial = write.carry.initial
    sizes = [op.dim(initial, axis) for axis in range(rank(initial) or 0)]
    first, rest = sizes[: write.depth], sizes[write.depth :]
    total = reduce(op.Mul, first)
    places = _places(op, write, indices, _shaped(op, op.arange(total), *first))
    order = op.arange(op.Shape(places))
    none = op.ConstantOfShape(total, value=ir.tensor(np.zeros(1, np.int64)))
    last = op.ScatterElements(none, places, order, axis=0, reduction="max")
    target = op.Where(op.Equal(op.Gather(last, places), order), places, total)
    parts = _shaped(op, _in_a_row(op, write, updates), op.Shape(places), *rest)
    longer = with_zeros(op, _shaped(op, initial, total, *rest), (0, False), op.constant([1]))
    written = op.ScatterND(longer, op.Unsqueeze(target, [1]), parts)
    return op.reshape(op.Slice(written, [0], total, [0]), initial)


def _shaped(op: Builder, value: ir.Value, *sizes: ir.Value) -> ir.Value:
    return op.Reshape(value, op.Concat(*sizes, axis=0), allowzero=1)


def _places(op: Builder, write: Write, indices: ir.Value, numbers: ir.Value) -> ir.Value:
    """Return the number of the place of each part, in the order of the trips."""
    if write.axis is None:
        return op.GatherND(numbers, op.Reshape(indices, [-1, write.depth]))
    places = op.GatherElements(numbers, _in_a_row(op, write, indices), axis=write.axis)
    return op.Reshape(places, [-1])


def _in_a_row(op: Builder, write: Write, stack: ir.Value) -> ir.Value:
    """Return what all trips read or write along an axis as one tensor."""
    if write.axis is None:
        return stack
    dims = static_shape(write.indices) or ()
    return in_a_row(op, op.Reshape(stack, [-1, *dims]), len(dims), write.axis)
