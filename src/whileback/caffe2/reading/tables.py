"""What workspaces leave when their nets have run: the rows of one table for each scope.

All workspaces that are ever pushed on one scope add a row each to its table, which only grows.
A column has what one blob of the workspaces held. So what a workspace held is known by the number
of its row, wherever it stands on a stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from whileback.caffe2.reading.cells import Kind
from whileback.caffe2.reading.emitter import Emitter

__all__ = ["Row", "Rows", "Start", "Table", "vacant"]


def vacant(op: Emitter, kind: Kind) -> ir.Value:
    """Return something for a column, of a row that nobody will read."""
    return op.blank(kind.dtype, [dim or 0 for dim in kind.dims or ()])


@dataclass(frozen=True, eq=False)
class Row:
    """One row; `index` is its number."""

    index: ir.Value
    columns: Mapping[str, ir.Value]


@dataclass(frozen=True, eq=False)
class Rows:
    """Any number of rows.

    Attributes:
        columns: what `Table.column` returns of them.
        same: of other columns what all rows have there.
        lengths: of the table without and with them, where any column is the `same`.
    """

    columns: Mapping[str, ir.Value]
    same: Mapping[str, ir.Value] = field(default_factory=dict)
    lengths: tuple[ir.Value, ...] = ()

    def column(self, op: Emitter, name: str) -> ir.Value:
        """Return one of the columns."""
        if name not in self.same:
            return self.columns[name]
        before, after = self.lengths
        row = op.Unsqueeze(self.same[name], [0])
        sizes = [op.Unsqueeze(op.Sub(after, before), [0]), op.Shape(row, start=1)]
        return op.Expand(row, op.Concat(*sizes, axis=0))


@dataclass(frozen=True, eq=False)
class Start:
    """The rows that are there when a trip of a loop starts.

    Attributes:
        before: the table before the loop, if that is all, because no trip adds rows.
        columns: inputs of the loop's body that stand for those columns that are read.
        read: whether anything of `before` was read.
    """

    before: Table | None
    columns: dict[str, ir.Value] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def same(self, name: str) -> ir.Value | None:
        """Return what all rows have in a column, if that is known."""
        value = None if self.before is None else self.before.same(name)
        if value is not None:
            self.read.add(name)
        return value


@dataclass(frozen=True, eq=False)
class Table:
    """The rows that workspaces of one scope have left.

    Attributes:
        kinds: what stands in each column.
        length: the number of rows.
        start: the first rows, in the body of a loop.
        blocks: the rows after those.
    """

    kinds: Mapping[str, Kind]
    length: ir.Value
    start: Start | None = None
    blocks: tuple[Row | Rows, ...] = ()

    @property
    def inputs(self) -> Mapping[str, ir.Value]:
        """Those columns of its first rows that are inputs of a loop's body."""
        return {} if self.start is None else self.start.columns

    def grown(self, op: Emitter, index: ir.Value, columns: Mapping[str, ir.Value]) -> Table:
        """Return the table with one more row, which is known by an index."""
        blocks = (*self.blocks, Row(index, columns))
        return replace(self, length=op.plus(self.length, 1), blocks=blocks)

    def added(self, before: Table) -> tuple[Row, ...] | None:
        """Return the rows that were added one by one since, None if the table changed otherwise."""
        count = len(before.blocks)
        if self.start is not before.start or self.blocks[:count] != before.blocks:
            return None
        rows = tuple(block for block in self.blocks[count:] if isinstance(block, Row))
        return rows if count + len(rows) == len(self.blocks) else None

    def same(self, name: str) -> ir.Value | None:
        """Return what all rows have in a column, if that is known."""
        if self.start is not None:
            return None if self.blocks else self.start.same(name)
        if len(self.blocks) == 1 and isinstance(self.blocks[0], Rows):
            return self.blocks[0].same.get(name)
        return None

    def element(self, op: Emitter, name: str, index: ir.Value) -> ir.Value:
        """Return what stands in a column in a row."""
        for block in self.blocks:
            if isinstance(block, Row) and block.index is index:
                return block.columns[name]
        same, kind = self.same(name), self.kinds[name]
        if same is not None:
            return same
        if kind.is_fixed:
            return op.Gather(self.column(op, name), index, axis=0)
        found = op.SequenceAt(self.column(op, name), index)
        found.type, found.shape = ir.TensorType(kind.dtype), op.shape(kind.dims)
        return found

    def column(self, op: Emitter, name: str) -> ir.Value:
        """Return a column: a tensor with one more axis, or a sequence where shapes differ."""
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
        if not parts:
            kind = self.kinds[name]
            return op.blank(kind.dtype, [0, *(dim or 0 for dim in kind.dims or ())])
        pieces = [
            op.Unsqueeze(part.columns[name], [0])
            if isinstance(part, Row)
            else part.column(op, name)
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
