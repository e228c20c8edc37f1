"""Buffers that loops write row by row: the rows are stacked, and written once after the loop.

ONNX knows no writing in place: a trip that writes a row of a buffer copies all of it. Where no trip
reads the buffer, the rows can wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import reduce

import numpy as np
import onnx_ir as ir

from whileback.gradient.memory.blocks import with_zeros
from whileback.gradient.memory.carries import replace_carry
from whileback.gradient.rules.controlflow.scattered import in_a_row
from whileback.gradient.rules.controlflow.tape import stack_of
from whileback.gradient.rules.controlflow.writes import Write, small_writes
from whileback.graph.builder import Builder
from whileback.graph.cleanup import prune
from whileback.graph.scopes import LoopView, is_standard, loop_view
from whileback.graph.shapes import rank, static_shape

__all__ = ["write_after_loops"]


def write_after_loops(op: Builder, loops: Sequence[ir.Node]) -> None:
    """Let loops, of which the inner ones come last, stack what they write to buffers but not read.

    `op` is a builder for the graph that the outermost of them are in.
    """
    for node in reversed(loops):
        while (write := next(_only_written(loop_view(node)), None)) is not None:
            _write_after(op, loop_view(node), write)


def _only_written(view: LoopView) -> Iterator[Write]:
    for write in small_writes(view):
        is_number = write.carry.initial.dtype not in (None, ir.DataType.STRING)
        if write.replaces and is_number and not _is_read(view.body, write):
            yield write


def _is_read(body: ir.Graph, write: Write) -> bool:
    """Tell whether anything but the write reads the buffer, which may have copies."""
    found = [write.carry.input]
    for value in found:
        for use in value.uses():
            copies = is_standard(use.node, "Identity") and use.node.graph is body
            if copies or (use.node is write.node and use.idx == 0):
                found.append(use.node.outputs[0])
            elif not is_standard(use.node, "Shape", "Size"):
                return True
    results = [value for value in body.outputs if value in found]
    return write.node.outputs[0] not in found or results != [write.carry.output]


def _write_after(op: Builder, view: LoopView, write: Write) -> None:
    """Put in the place of a carried buffer stacks of what is written to it."""
    body = copy(op)
    body.graph = view.body
    rows = body.own([write.indices, write.updates])
    stacks = [stack_of(op, view, row) for row in rows]
    replace_carry(op, view, write.carry, "written", lambda op: _written(op, write, *stacks))
    # What asks for the size of the buffer after the write finds it before the loop.
    write.node.outputs[0].replace_all_uses_with(write.carry.initial)
    prune(view.body)


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
