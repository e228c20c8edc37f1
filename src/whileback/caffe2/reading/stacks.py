"""What a scope holds: a stack of workspaces, as the number of the topmost one's row in a table.

In each row stands the number of the workspace below. So a whole stack can be kept in a row of the
table of another scope, as one number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from whileback.caffe2.reading.cells import BELOW, Kind, Workspace
from whileback.caffe2.reading.emitter import Emitter
from whileback.caffe2.reading.tables import Table

__all__ = ["Stack"]


@dataclass(frozen=True, eq=False)
class Stack:
    """A stack of workspaces.

    Attributes:
        table: where each workspace has a row; `BELOW` is the column of the numbers below.
        top: the number of the topmost workspace, -1 if there is none.
        depth: the height of the stack, None if only the run knows it.
        workspaces: those on it, and above those that were, which are used again.
        is_live: whether the blobs of the topmost one still hold what they held when it was left.
    """

    table: Table
    top: ir.Value
    depth: int | None = 0
    workspaces: tuple[Workspace, ...] = ()
    is_live: bool = True

    @classmethod
    def empty(cls, op: Emitter, kinds: Mapping[str, Kind]) -> Stack:
        """Return the empty stack of an empty table."""
        return cls(Table(kinds, op.number(0)), op.number(-1))

    def cleared(self, op: Emitter) -> Stack:
        """Return the empty stack of the same table."""
        return replace(self, top=op.number(-1), depth=0, is_live=True)

    def pushed(self, op: Emitter, columns: Mapping[str, ir.Value]) -> Stack:
        """Return the stack with a workspace on top, of which the columns are kept."""
        return self._grown(op, {BELOW: self.top, **columns})

    def replaced(self, op: Emitter, columns: Mapping[str, ir.Value]) -> Stack:
        """Return the stack with a workspace in the place of the topmost one, if there is one."""
        if self.depth is not None:
            below = self.read(op, BELOW)
        else:
            numbers = op.Concat([-1], self.table.column(op, BELOW), axis=0)
            below = op.Gather(numbers, op.plus(self.top, 1), axis=0)
        return self._grown(op, {BELOW: below, **columns})

    def _grown(self, op: Emitter, columns: Mapping[str, ir.Value]) -> Stack:
        top = self.table.length
        return replace(self, table=self.table.grown(op, top, columns), top=top)

    def popped(self, op: Emitter) -> Stack:
        """Return the stack without its topmost workspace."""
        depth = None if self.depth is None else self.depth - 1
        return replace(self, top=self.read(op, BELOW), depth=depth)

    def read(self, op: Emitter, name: str) -> ir.Value:
        """Return what the topmost workspace holds in a column."""
        return self.table.element(op, name, self.top)
