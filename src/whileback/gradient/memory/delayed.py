"""Rows that trips read of what earlier trips wrote or appended: carried, instead of read there.

A body that reads row i-2 of a tensor and writes row i needs two rows of it. Carried from trip to
trip, with the rows that are there before the loop, they leave the tensor to be written only:

    B[i] = f(B[i-1], B[i-2])        p, q, B[i] = f(p, q), p, f(p, q)

and what is only written is put together once after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.gradient.memory.sources import Source, source
from whileback.gradient.rules.controlflow.trips import may_make_no_trip
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.loops import More, extend_loop
from whileback.graph.moving import taken_out
from whileback.graph.scopes import LoopView, is_standard, loop_view

__all__ = ["carry_rows"]

# More rows are not carried.
MOST = 16


@dataclass(frozen=True)
class _Read:
    """A node that reads a row, `delay` trips after it was written; not yet, if that is below 0.

    Or it reads the size, and `delay` is None.
    """

    node: ir.Node
    delay: int | None
    after: bool


def carry_rows(op: Builder, node: ir.Node) -> ir.Node:
    """Let a loop carry the rows that it reads, where that is all; return what stands for it.

    `op` is a builder for the graph that the outermost loops are in.
    """
    for index in range(len(loop_view(node).carries)):
        view = loop_view(node)
        found = source(view, view.carries[index])
        reads = None if found is None else _reads(view, found)
        if found is not None and reads:
            node = _rewrite(op, view, found, reads)
    return node


def _reads(view: LoopView, found: Source) -> list[_Read] | None:
    """Return all reads of rows and sizes, or None if there are others."""
    reads = []
    versions = [(found.carry.input, False), (found.node.outputs[0], True)]
    for value, after in versions:
        for use in value.uses():
            if use.node is found.node and use.idx == found.place:
                continue
            if use.node.graph is not view.body:
                return None
            if is_standard(use.node, "Identity"):
                versions.append((use.node.outputs[0], after))
                continue
            read = _read(view, found, use.node, after)
            if read is None or use.idx:
                return None
            reads.append(read)
    results = [value for value in view.body.outputs if value in dict(versions)]
    depth = max((read.delay or 0 for read in reads), default=0)
    if results != [found.carry.output] or depth > MOST or not found.holds(depth):
        return None
    return reads


def _read(view: LoopView, found: Source, node: ir.Node, after: bool) -> _Read | None:
    if found.grows and is_standard(node, "Shape", "SequenceLength"):
        return _Read(node, None, after) if view.trip is not None else None
    delay = found.delay(view, node, after)
    if delay is None or (found.grows and delay < int(not after)):
        return None
    return _Read(node, delay, after)


def _rewrite(op: Builder, view: LoopView, found: Source, reads: Sequence[_Read]) -> ir.Node:
    """Carry as many rows as the longest delay."""
    depth = max(read.delay or 0 for read in reads)
    starts = _starts(op, view, found, depth)
    rows = [
        ir.Value(name=op.names.fresh(f"{found.carry.input.name}/row"), type=each.type)
        for each in starts
    ]
    for row, start in zip(rows, starts, strict=True):
        row.shape = start.shape
    for read in reads:
        _replace(op, view, found, read, rows)
    body = op.within(view.body)
    after = body.own([found.row(body), *rows[:-1]]) if rows else []
    carry_names = [op.names.fresh(f"{row.name}/last") for row in rows]
    view = loop_view(view.node)  # a read may be what another carried value becomes
    (result, *_), more = extend_loop(view, More(list(zip(starts, rows, after, strict=True))))
    for value, row, name in zip(more, rows, carry_names, strict=True):
        value.name, value.type, value.shape = name, row.type, row.shape
    node = result.producer()
    assert node is not None
    return node


def _starts(op: Builder, view: LoopView, found: Source, depth: int) -> list[ir.Value]:
    """Return the rows that the first trip reads; without a trip nothing may read them."""
    if not depth:
        return []
    around = view.node.graph
    assert isinstance(around, ir.Graph)
    apart = op.inside("rows")
    apart.origin, apart.role = view.node, "rows"

    def first(inside: Builder) -> list[ir.Value]:
        return [found.first(inside, delay) for delay in range(1, depth + 1)]

    runs = _makes_trips(apart, view) if may_make_no_trip(view) else None
    if runs is not None:
        zeros = _zeros(apart, found)
        starts = list(apart.either(runs, first, lambda _: [zeros] * depth))
        for start in starts:
            start.type, start.shape = zeros.type, zeros.shape
    else:
        starts = first(apart)
    around.insert_before(view.node, taken_out(apart.graph))
    return starts


def _makes_trips(op: Builder, view: LoopView) -> ir.Value | None:
    """Return whether the loop makes a trip; None if it always does."""
    if view.scan_inputs:
        return op.Greater(op.dim(view.scan_inputs[0].stack, view.scan_inputs[0].axis), 0)
    some = None if view.limit is None else op.Greater(op.Reshape(view.limit, [1]), 0)
    if view.start is None:
        return some
    start = op.Reshape(view.start, [1])
    return start if some is None else op.And(some, start)


def _zeros(op: Builder, found: Source) -> ir.Value:
    dtype = found.carry.initial.dtype or ir.DataType.FLOAT
    dims = found.dims(op)
    if not dims:
        return op.constant(0, dtype)
    return op.ConstantOfShape(op.Concat(*dims, axis=0), value=ir.tensor(np.zeros(1, dtype.numpy())))


def _replace(
    op: Builder, view: LoopView, found: Source, read: _Read, rows: Sequence[ir.Value]
) -> None:
    """Put in the place of a read what gives the same without the carried value."""
    node, graph = read.node, read.node.graph
    assert isinstance(graph, ir.Graph)
    if read.delay is not None and read.delay < int(not read.after):
        node.replace_input_with(0, found.carry.initial)
        return
    apart = op.inside("row")
    apart.origin, apart.role = node, "row"
    if read.delay is None:
        result = _size(apart, view, found, read)
    else:
        row = rows[read.delay - 1] if read.delay else found.row(apart)
        result = found.as_read(apart, row, node)
    graph.insert_before(node, taken_out(apart.graph))
    result.shape = result.shape or node.outputs[0].shape
    node.outputs[0].replace_all_uses_with(result, replace_graph_outputs=True)
    discard(graph, node)


def _size(op: Builder, view: LoopView, found: Source, read: _Read) -> ir.Value:
    """Return the size as that before the loop, and a row for each trip since."""
    assert view.trip is not None
    trips = op.Add(view.trip, 1) if read.after else view.trip
    attributes = {a.name: a.value for a in read.node.attributes.values()}
    (before,) = op.emit(read.node.op_type, [found.carry.initial], attributes)
    if found.axis is None:
        return op.Add(before, trips)
    axes = range(found.rank)[attributes.get("start", 0) : attributes.get("end")]
    return op.Add(before, op.Mul(trips, [int(axis == found.axis) for axis in axes]))
