"""What a scope holds: a stack of workspaces, as numbers that the run knows.

All workspaces that are ever pushed on one scope leave a row each in one table, which only grows. A
stack is the number of its topmost row, -1 if it is empty; in each row stands the number of the one
below. So a stack itself can be kept in a row of another table, as a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from whileback.caffe2.reading.cells import BELOW, Kind, Workspace
from whileback.caffe2.reading.emitter import Emitter

__all__ = ["Row", "Rows", "Stack", "Start", "vacant"]


def vacant(op: Emitter, kind: Kind) -> ir.Value:
    """Return something for a column, of a row that nobody will read."""
    return op.blank(kind.dtype, [dim or 0 for dim in kind.dims or ()])


@dataclass(frozen=True, eq=False)
class Row:
    """One row of the table; `index` is its number."""

    index: ir.Value
    columns: Mapping[str, ir.Value]


@dataclass(frozen=True, eq=False)
class Rows:
    """Any number of rows: columns as `Stack.column` returns them."""

    columns: Mapping[str, ir.Value]


@dataclass(frozen=True, eq=False)
class Start:
    """The rows that are there when a trip of a loop starts; a column is made when it is read."""

    columns: dict[str, ir.Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Stack:
    """A stack of workspaces and the table that it is in.

    Attributes:
        kinds: what stands in the columns of the table; `BELOW` is the column of numbers.
        top: the number of the topmost workspace.
        length: the number of rows of the table.
        start: rows that are in the table before `blocks`, in the body of a loop.
        blocks: the rows of the table.
        depth: the height of the stack, None if only the run knows it.
        workspaces: those on it, and above those that were, which are used again.
        is_live: whether the blobs of the topmost workspace still hold what they held when it was
            left.
    """

    kinds: Mapping[str, Kind]
    top: ir.Value
    length: ir.Value
    start: Start | None = None
    blocks: tuple[Row | Rows, ...] = ()
    depth: int | None = 0
    workspaces: tuple[Workspace, ...] = ()
    is_live: bool = True

    @classmethod
    def empty(cls, op: Emitter, kinds: Mapping[str, Kind]) -> Stack:
        """Return the empty stack of an empty table."""
        return cls(kinds, op.number(-1), op.number(0))

    def cleared(self, op: Emitter) -> Stack:
        """Return the empty stack of the same table."""
        return replace(self, top=op.number(-1), depth=0, is_live=True)

    def pushed(self, op: Emitter, columns: Mapping[str, ir.Value]) -> Stack:
        """Return the stack with a workspace on top, of which the columns are kept."""
        return self._added(op, {BELOW: self.top, **columns})

    def replaced(self, op: Emitter, columns: Mapping[str, ir.Value]) -> Stack:
        """Return the stack with a workspace in the place of the topmost one, if there is one."""
        if self.depth is not None:
            below = self.read(op, BELOW)
        else:
            numbers = op.Concat([-1], self.column(op, BELOW), axis=0)
            below = op.Gather(numbers, op.plus(self.top, 1), axis=0)
        return self._added(op, {BELOW: below, **columns})

    def _added(self, op: Emitter, columns: Mapping[str, ir.Value]) -> Stack:
        row, length = Row(self.length, columns), op.plus(self.length, 1)
        return replace(self, top=row.index, length=length, blocks=(*self.blocks, row))

    def popped(self, op: Emitter) -> Stack:
        """Return the stack without its topmost workspace."""
        depth = None if self.depth is None else self.depth - 1
        return replace(self, top=self.read(op, BELOW), depth=depth)

    def added(self, before: Stack) -> tuple[Row, ...] | None:
        """Return the rows that were added one by one since, None if the table changed otherwise."""
        count = len(before.blocks)
        if self.start is not before.start or self.blocks[:count] != before.blocks:
            return None
        rows = tuple(block for block in self.blocks[count:] if isinstance(block, Row))
        return rows if count + len(rows) == len(self.blocks) else None

    def read(self, op: Emitter, name: str) -> ir.Value:
        """Return what the topmost workspace holds in a column."""
        for row in self.blocks:
            if isinstance(row, Row) and row.index is self.top:
                return row.columns[name]
        column, kind = self.column(op, name), self.kinds[name]
        if kind.is_fixed:
            return op.Gather(column, self.top, axis=0)
        found = op.SequenceAt(column, self.top)
        found.type, found.shape = ir.TensorType(kind.dtype), op.shape(kind.dims)
        return found

    def column(self, op: Emitter, name: str) -> ir.Value:
        """Return a column of the table.

        It is a tensor with one more axis in front, or where shapes differ, a sequence.
        """
        parts: list[Row | Rows] = list(self.blocks)
        if self.start is not None:
            parts.insert(0, Rows({name: self._start_column(op, self.start, name)}))
        if self.kinds[name].is_fixed:
            return self._tensor(op, name, parts)
        return self._sequence(op, name, parts)

    def _start_column(self, op: Emitter, start: Start, name: str) -> ir.Value:
        if name not in start.columns:
            kind = self.kinds[name]
            dims = [None, *(kind.dims or ())] if kind.is_fixed else None
            column = op.placeholder(name or "below", ir.TensorType(kind.dtype), op.shape(dims))
            start.columns[name] = column if kind.is_fixed else op.sequence(column, kind.dtype)
        return start.columns[name]

    def _tensor(self, op: Emitter, name: str, parts: list[Row | Rows]) -> ir.Value:
        kind = self.kinds[name]
        if not parts:
            return op.blank(kind.dtype, [0, *(dim or 0 for dim in kind.dims or ())])
        pieces = [
            op.Unsqueeze(part.columns[name], [0]) if isinstance(part, Row) else part.columns[name]
            for part in parts
        ]
        return pieces[0] if len(pieces) == 1 else op.Concat(*pieces, axis=0)

    def _sequence(self, op: Emitter, name: str, parts: list[Row | Rows]) -> ir.Value:
        """Only the first part may be a block of rows; it has all rows up to there."""
        dtype = self.kinds[name].dtype
        if parts and isinstance(parts[0], Rows):
            sequence = parts.pop(0).columns[name]
        else:
            sequence = op.sequence(op.SequenceEmpty(dtype=int(dtype)), dtype)
        for row in parts:
            sequence = op.sequence(op.SequenceInsert(sequence, row.columns[name]), dtype)
        return sequence
