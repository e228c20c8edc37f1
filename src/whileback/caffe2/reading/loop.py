"""A loop that is being read: what it carries from trip to trip, and what its trips leave in a row.

A body is read with all that its nets may write as inputs. What it turns out to change besides, and
sizes and types that it turns out to change, go into a `Plan`; then the body is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import onnx_ir as ir

from whileback.caffe2.reading.cells import Cell
from whileback.caffe2.reading.contents import Clash, Content, Opaque
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.plans import Plan
from whileback.caffe2.reading.reader import Reader
from whileback.caffe2.reading.stacks import Stack
from whileback.caffe2.reading.tables import Row, Rows, Start, Table

__all__ = ["Loop"]

BOOL, INT64 = ir.TensorType(ir.DataType.BOOL), ir.TensorType(ir.DataType.INT64)


class Loop:
    """One reading of a loop's body, and the loop that it becomes.

    Attributes:
        body: reads the nets of the body.
        trip: the number of the trip, INT64[].
    """

    def __init__(self, outside: Reader, step: Step, written: Iterable[Cell]) -> None:
        self.outside = outside
        self.plan = Plan.of(outside, step)
        self.body = outside.inside(outside.op.inside("body"))
        self.trip = outside.op.placeholder("trip", INT64, ir.Shape([]))
        self._start: dict[Cell, Content] = {}
        self._carries: list[tuple[ir.Value, ir.Value, ir.Value, ir.Value]] = []
        self._stacks: list[tuple[ir.Value, ir.Value]] = []
        for cell in dict.fromkeys([*written, *self.plan.carried]):
            content = self._at_start(cell)
            if content is not None:
                self._start[cell] = self.body.state[cell] = content

    def _at_start(self, cell: Cell) -> Content | None:
        """Return what a blob holds when a trip starts."""
        op, content = self.outside.op, self.outside.recovered(cell, self.outside.state.get(cell))
        if content is not None:
            self.outside.state[cell] = content
        if cell in self.plan.clashing:
            return Clash.of(content)
        if isinstance(content, ir.Value):
            return op.placeholder(cell.name, content.type, self._shape(cell, content))
        if isinstance(content, Stack) or cell in self.plan.carried:
            return self._any_stack(cell)
        return content

    def _shape(self, cell: Cell, value: ir.Value) -> ir.Shape | None:
        """Return the shape that a blob has before and after each trip."""
        return self.outside.op.shape(self.plan.dims(cell, value))

    def _any_stack(self, cell: Cell) -> Stack:
        """Return a stack of which only the run knows how high it is."""
        top, length = (
            self.outside.op.placeholder(f"{cell.name}/{name}", INT64, ir.Shape([]))
            for name in ("top", "length")
        )
        before = self._stack_before(cell)
        start = Start(None if cell in self.plan.growing else before.table)
        is_live = before.is_live and cell not in self.plan.spent
        return Stack(Table(before.table.kinds, length, start), top, None, (), is_live)

    def _stack_before(self, cell: Cell) -> Stack:
        before = self.outside.state.get(cell)
        if isinstance(before, Stack):
            return before
        return Stack.empty(self.outside.op, cell.scope.kept)

    def is_settled(self) -> bool:
        """Tell whether the body, which has been read, keeps to the plan; else correct the plan."""
        before, start, plan = self.outside.state, self._start, self.plan
        learned = [
            plan.learns(cell, start.get(cell, before.get(cell)), end, cell in start)
            for cell, end in self.body.state.items()
        ]
        return not any(learned)

    def release(self) -> None:
        """Give the reading up."""
        self.body.op.release(self.body.op.graph)

    def stacked(self, row: ir.Value) -> ir.Value:
        """Return the rows of all trips, stacked along a new first axis."""
        dims = None if row.shape is None else [None, *row.shape]
        op = self.outside.op
        result = op.placeholder(f"{row.name}/rows", row.type, op.shape(dims))
        self._stacks.append((row, result))
        return result

    def _carry(
        self, initial: ir.Value, begin: ir.Value, end: ir.Value, shape: ir.Shape | None
    ) -> ir.Value:
        """Return what a value is after the last trip: what it was before if trips leave it so."""
        result = self.outside.op.placeholder(f"{begin.name}/after", begin.type, shape)
        self._carries.append((initial, begin, end, result))
        return initial if end in (initial, begin) else result

    def emit(self, limit: ir.Value | None, start: ir.Value, proceed: ir.Value, blob: str) -> None:
        """Emit the loop; afterwards the blobs hold what they hold after the last trip.

        Args:
            limit: the most trips that it makes, None for any number.
            start: whether it makes the first trip.
            proceed: whether it makes another one, in the body.
            blob: what the loop is named after.
        """
        ends = {**self._start, **self.body.state}
        after = {cell: self._after(cell, end) for cell, end in ends.items()}
        op, body = self.outside.op, self.body.op
        op.blob = blob
        going = op.placeholder("going", BOOL, ir.Shape([]))
        initials, begins, values, results = (
            zip(*self._carries, strict=True) if self._carries else ((),) * 4
        )
        rows, stacks = zip(*self._stacks, strict=True) if self._stacks else ((), ())
        body.graph.inputs.extend([self.trip, going, *begins])
        body.graph.outputs.extend(body.own([proceed, *values, *rows]))
        if results or stacks:
            op.control("Loop", [limit, start, *initials], {"body": body.graph}, [*results, *stacks])
        else:
            op.release(body.graph)
        for cell, content in after.items():
            if content is not self.outside.state.get(cell):
                self.outside.put(cell, content)

    def _after(self, cell: Cell, end: Content) -> Content:
        """Return what a blob holds after the loop."""
        begin, before = self._start.get(cell), self.outside.state.get(cell)
        if cell in self.plan.clashing:
            return Clash.of(before, end)
        if isinstance(end, Stack):
            return self._stack_after(cell, end)
        if not isinstance(end, ir.Value):
            return Opaque() if isinstance(end, Opaque) and end is not before else end
        if isinstance(begin, ir.Value) and isinstance(before, ir.Value):
            return self._carry(before, begin, end, self._shape(cell, before))
        if end is before:
            return end
        op = self.outside.op
        dims = None if end.shape is None else list(map(op.fixed, end.shape))
        begin = op.placeholder(cell.name, end.type, op.shape(dims))
        return self._carry(op.stand_in(end), begin, end, op.shape(dims))

    def _stack_after(self, cell: Cell, end: Stack) -> Stack:
        """Return a stack after the loop, in its table with the rows that the trips added."""
        before, begin = self._stack_before(cell), self._start.get(cell)
        if end is before:
            return end
        if not isinstance(begin, Stack):
            begin = self._any_stack(cell)
        table = self._table_after(before.table, begin.table, end.table)
        top = self._carry(before.top, begin.top, end.top, begin.top.shape)
        if before.depth == end.depth and before.workspaces == end.workspaces:
            return replace(before, table=table, top=top, is_live=begin.is_live)
        return Stack(table, top, None, (), begin.is_live)

    def _table_after(self, before: Table, begin: Table, end: Table) -> Table:
        """Return a table with the rows that the trips added."""
        op, added, read = self.outside.op, end.added(begin), begin.inputs
        length = self._carry(before.length, begin.length, end.length, begin.length.shape)
        if added == () or end.length is before.length:
            for name, column in read.items():
                self._carry(before.column(op, name), column, column, column.shape)
            return before
        fixed = all(kind.is_fixed for kind in before.kinds.values())
        if added is not None and len(added) == 1 and fixed and not read:
            rows = self._rows(added[0], (before.length, length))
            return replace(before, length=length, blocks=(*before.blocks, rows))
        columns = {}
        for name in before.kinds:
            column = begin.column(self.body.op, name)
            grown = end.column(self.body.op, name)
            columns[name] = self._carry(before.column(op, name), column, grown, column.shape)
        return Table(before.kinds, length, None, (Rows(columns),))

    def _rows(self, row: Row, lengths: tuple[ir.Value, ir.Value]) -> Rows:
        """Return the rows that all trips leave, where each leaves one."""
        columns, same = {}, {}
        for name, value in row.columns.items():
            outside = self._from_outside(value)
            if outside is None:
                columns[name] = self.stacked(value)
            else:
                same[name] = outside
        return Rows(columns, same, lengths)

    def _from_outside(self, value: ir.Value) -> ir.Value | None:
        """Return what a value of the body is outside, None if trips change it."""
        producer = value.producer()
        if producer is not None and producer.graph is self.body.op.graph:
            return None
        for cell, begin in self._start.items():
            if begin is value and self.body.state.get(cell) is begin:
                before = self.outside.state[cell]
                return before if isinstance(before, ir.Value) else None
        return None if value in self._inputs() else value

    def _inputs(self) -> set[ir.Value]:
        """Return what stands in the body for what trips may change."""
        found = {self.trip}
        for begin in self._start.values():
            if isinstance(begin, ir.Value):
                found.add(begin)
            elif isinstance(begin, Stack):
                found.update((begin.top, begin.table.length))
                found.update(begin.table.inputs.values())
        return found
