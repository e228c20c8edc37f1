"""Reads `If`: both branches, each from what the blobs hold before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from operator import or_

import onnx_ir as ir

from whileback.caffe2.reading.cells import Cell, Kind
from whileback.caffe2.reading.conditions import only_element
from whileback.caffe2.reading.contents import Clash, Content, Opaque
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader, controls
from whileback.caffe2.reading.stacks import Stack
from whileback.caffe2.reading.tables import Row, Rows, Table, vacant

__all__: list[str] = []


def _if(reader: Reader, step: Step) -> None:
    """Run one branch or the other; a blob that only one of them writes may keep what it holds.

    What a blob holds that was never written, where the other branch writes it, is undefined.
    """
    chosen = only_element(reader, step, step.proto.input[0])
    join = _Join(reader)
    join.then.run(step.nets["then_net"])
    if "else_net" in step.nets:
        join.other.run(step.nets["else_net"])
    joined = {cell: join.content(cell) for cell in {**join.then.state, **join.other.state}}
    join.emit(chosen, step.proto.output[0] if step.proto.output else "If")
    for cell, content in joined.items():
        if content is not reader.state.get(cell):
            reader.put(cell, content)


class _Join:
    """The two branches of an `If`, and the pairs of values that become its outputs."""

    def __init__(self, before: Reader) -> None:
        self.before = before
        self.then, self.other = (before.inside(before.op.inside(n)) for n in ("then", "else"))
        self.outputs: list[tuple[ir.Value, ir.Value, ir.Value]] = []

    def emit(self, chosen: ir.Value, blob: str) -> None:
        """Emit the `If`."""
        op, then, other = self.before.op, self.then.op, self.other.op
        op.blob = blob
        if not self.outputs:
            op.release(then.graph, other.graph)
            return
        firsts, seconds, results = zip(*self.outputs, strict=True)
        then.graph.outputs.extend(then.own(firsts))
        other.graph.outputs.extend(other.own(seconds))
        graphs = {"then_branch": then.graph, "else_branch": other.graph}
        op.control("If", [chosen], graphs, results)

    def content(self, cell: Cell) -> Content:
        """Return what a blob holds after the `If`."""
        a, b = self.then.state.get(cell), self.other.state.get(cell)
        if a is b and a is not None:
            return a
        a, b = self.then.recovered(cell, a), self.other.recovered(cell, b)
        if isinstance(a, Stack | None) and isinstance(b, Stack | None):
            return self._stack(cell, a or self._before(cell), b or self._before(cell))
        if isinstance(a, ir.Value) and b is None:
            b = self.other.op.stand_in(a)
        if isinstance(b, ir.Value) and a is None:
            a = self.then.op.stand_in(b)
        if isinstance(a, ir.Value) and isinstance(b, ir.Value) and a.type == b.type:
            return self._value(a, b)
        opaque = isinstance(a, Opaque | None) and isinstance(b, Opaque | None)
        return Opaque() if opaque else Clash.of(a, b)

    def _value(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Return an output of the `If`, or the value that both branches have."""
        if a is b:
            return a
        op = self.before.op
        result = op.placeholder(f"{a.name}/either", a.type, op.shapes.common(a.shape, b.shape))
        self.outputs.append((a, b, result))
        return result

    def _before(self, cell: Cell) -> Stack:
        held = self.before.state.get(cell)
        return held if isinstance(held, Stack) else Stack.empty(self.before.op, cell.scope.kept)

    def _stack(self, cell: Cell, a: Stack, b: Stack) -> Stack:
        """Join two stacks."""
        before, top = self._before(cell), self._value(a.top, b.top)
        table = self._table(before.table, top, a, b)
        is_live = a.is_live and b.is_live
        if a.depth == b.depth and a.workspaces == b.workspaces:
            return Stack(table, top, a.depth, a.workspaces, is_live)
        return Stack(table, top, None, (), is_live)

    def _table(self, before: Table, top: ir.Value, a: Stack, b: Stack) -> Table:
        """Join two tables.

        Where both branches only add rows, both get the same number of them, so that an `If` in a
        loop adds as many in every trip.
        """
        first, second = a.table.added(before), b.table.added(before)
        if first is None or second is None:
            columns = {
                name: self._value(
                    a.table.column(self.then.op, name), b.table.column(self.other.op, name)
                )
                for name in before.kinds
            }
            length = self._value(a.table.length, b.table.length)
            return Table(before.kinds, length, None, (Rows(columns),))
        table = before
        for rows in zip_longest(first, second):
            index = top if _is_sole_top(rows, (a, b)) else table.length
            table = table.grown(self.before.op, index, self._row(before.kinds, *rows))
        return table

    def _row(self, kinds: Mapping[str, Kind], a: Row | None, b: Row | None) -> dict[str, ir.Value]:
        """Join two rows; where one is missing, something like the other is in its place."""
        found = {}
        for name, kind in kinds.items():
            first = a.columns[name] if a else vacant(self.then.op, kind)
            second = b.columns[name] if b else vacant(self.other.op, kind)
            found[name] = self._value(first, second)
        return found


def _is_sole_top(rows: Iterable[Row | None], stacks: Iterable[Stack]) -> bool:
    """Tell whether no other row than these can be on top: the number on top is then theirs."""
    pairs = list(zip(rows, stacks, strict=True))
    tops = [row is not None and row.index is stack.top for row, stack in pairs]
    empty = [stack.depth == 0 for _, stack in pairs]
    return any(tops) and all(map(or_, tops, empty))


controls["If"] = _if
