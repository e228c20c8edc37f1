"""What reading a loop's body showed, for the next time that it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from whileback.caffe2.reading.cells import Cell, Workspace
from whileback.caffe2.reading.contents import Clash, Content, Lost, Opaque
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader
from whileback.caffe2.reading.stacks import Stack
from whileback.graph.shapes import same_dim

__all__ = ["Plan"]


@dataclass(eq=False)
class Plan:
    """What a trip does to blobs that is not plain from its nets.

    Attributes:
        carried: those that it writes besides.
        loose: the axes whose sizes it changes; None where it changes the rank.
        clashing: those whose types it changes.
        spent: scopes of which it leaves a workspace on top that is no longer live.
        growing: scopes whose tables it reads and adds rows to.
        workspace: the blobs that exist only in the body, where it has its own.
    """

    carried: dict[Cell, None] = field(default_factory=dict)
    loose: dict[Cell, set[int] | None] = field(default_factory=dict)
    clashing: set[Cell] = field(default_factory=set)
    spent: set[Cell] = field(default_factory=set)
    growing: set[Cell] = field(default_factory=set)
    workspace: Workspace = field(default_factory=Workspace)

    @classmethod
    def of(cls, reader: Reader, step: Step) -> Plan:
        """Return what is known of a loop."""
        plan: Plan = reader.session.plans.setdefault(step, cls())
        return plan

    def dims(self, cell: Cell, value: ir.Value) -> Sequence[int | ir.SymbolicDim | None] | None:
        """Return the sizes that a blob has when any trip starts, if it has the value's now."""
        loose = self.loose.get(cell, set())
        if value.shape is None or loose is None:
            return None
        return [None if axis in loose else dim for axis, dim in enumerate(value.shape)]

    def learns(self, cell: Cell, begin: Content | None, end: Content, is_carried: bool) -> bool:
        """Note what a trip made of what a blob held; tell whether that was not known.

        Args:
            cell: the blob.
            begin: what it held when the trip started.
            end: what it holds after it.
            is_carried: whether the body has an input for it.
        """
        if cell in self.clashing or _same(begin, end):
            return False
        if begin is None and not (isinstance(end, Stack) and end.table.blocks):
            return False
        if begin is not None and not isinstance(begin, Lost) and not _alike(begin, end):
            self.clashing.add(cell)
            return True
        if not is_carried:
            self.carried[cell] = None
            return True
        if isinstance(begin, Stack) and isinstance(end, Stack):
            return self._learns_of_scope(cell, begin, end)
        if isinstance(begin, ir.Value) and isinstance(end, ir.Value):
            return self._loosens(cell, begin.shape, end.shape)
        return False

    def _learns_of_scope(self, cell: Cell, begin: Stack, end: Stack) -> bool:
        known, start = (cell in self.spent, cell in self.growing), begin.table.start
        if begin.is_live and not end.is_live:
            self.spent.add(cell)
        if start is not None and start.read and end.table.added(begin.table) != ():
            self.growing.add(cell)
        return known != (cell in self.spent, cell in self.growing)

    def _loosens(self, cell: Cell, begin: ir.Shape | None, end: ir.Shape | None) -> bool:
        """Let sizes be different in each trip that a trip changes; tell whether there are any."""
        loose = self.loose.get(cell, set())
        if loose is None or begin is None:
            return False
        if end is None or len(begin) != len(end):
            self.loose[cell] = None
            return True
        pairs = enumerate(zip(begin, end, strict=True))
        changed = {axis for axis, (m, n) in pairs if axis not in loose and not same_dim(m, n)}
        self.loose[cell] = loose | changed
        return bool(changed)


def _same(a: Content | None, b: Content | None) -> bool:
    """Tell whether a blob surely holds the same."""
    if isinstance(a, Stack) and isinstance(b, Stack):
        same = (a.top, a.table.start, a.table.blocks) == (b.top, b.table.start, b.table.blocks)
        return same and a.table.length is b.table.length
    return a is b or (isinstance(a, Opaque) and isinstance(b, Opaque))


def _alike(a: Content, b: Content) -> bool:
    """Tell whether two things can be in one blob, the one before and the other after a trip."""
    if isinstance(a, ir.Value) and isinstance(b, ir.Value):
        return a.type == b.type
    return type(a) is type(b) and not isinstance(a, Clash)
