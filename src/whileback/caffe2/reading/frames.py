"""The workspace that a `Do` runs its net in, while it does.

What a gradient `Do` reads of a workspace is kept in a table when the workspace is left; the rest is
forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import onnx_ir as ir

from whileback.caffe2.reading.cells import BELOW, Cell, Kind, Workspace
from whileback.caffe2.reading.contents import Content, Lost, Opaque
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader
from whileback.caffe2.reading.stacks import Stack
from whileback.caffe2.reading.tables import vacant
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label

__all__ = ["Frame"]


class Frame:
    """The workspace that a `Do` runs in: the topmost one, or one above it."""

    def __init__(self, reader: Reader, step: Step, stack: Stack, on_top: bool) -> None:
        self.reader = reader
        self.step = step
        self.stack = stack
        self.on_top = on_top
        self.cell = reader.cell(step.proto.input[-1])
        self.scope = self.cell.scope
        self.position = None if stack.depth is None else stack.depth - on_top
        if stack.depth == 0 and on_top:
            raise NetDefError(
                f"{label(step.proto)} takes a workspace from scope '{self.cell.name}', which has "
                "none. Run a forward Do on it before."
            )
        self.workspace = self._used_before().copy(partial(self.scope.local, self.position))

    def _used_before(self) -> Workspace:
        """Return the workspace as it was left; one above the top was there once, too."""
        if self.position is not None and self.position < len(self.stack.workspaces):
            return self.stack.workspaces[self.position]
        return self._covering() if self.on_top else Workspace()

    def _covering(self) -> Workspace:
        """Return what the workspaces that may be on top have together.

        Raises: UnsupportedError where a name does not stand for the same in all of them.
        """
        found = Workspace()
        for left in self.scope.left.values():
            found.nets.update(left.nets)
            for name, binding in left.bound.items():
                if name in found.own or found.bound.setdefault(name, binding) != binding:
                    raise self._ambiguous(name)
            for name, cell in left.own.items():
                same = found.own.setdefault(name, cell) is cell
                if name in found.bound or (not same and self.scope.holds_stack(name)):
                    raise self._ambiguous(name)
                if not same:
                    found.own[name] = self.scope.local(None, name)
        return found

    def _ambiguous(self, name: str) -> UnsupportedError:
        return UnsupportedError(
            f"{label(self.step.proto)} runs in a workspace of scope '{self.cell.name}' of which "
            f"only the run knows what blob '{name}' stands for. Use a scope for each Do."
        )

    def restore(self) -> None:
        """Give the workspace's own blobs what they held when it was left."""
        for name, cell in self.workspace.own.items():
            if name in self.scope.kept:
                self.reader.state[cell] = self._kept(name, cell)
            elif name in self.scope.kinds:
                self.reader.state[cell] = Lost(self.scope, name)

    def _kept(self, name: str, cell: Cell) -> Content:
        value = self.stack.read(self.reader.op, name)
        if not self.scope.kept[name].is_stack:
            return value
        held = self.reader.state.get(cell)
        if not isinstance(held, Stack):
            held = Stack.empty(self.reader.op, cell.scope.kept)
        return replace(held, top=value, depth=None, workspaces=())

    def check_live(self) -> None:
        """Refuse to go on with a workspace if its blobs have been used for another one."""
        if not self.stack.is_live:
            raise UnsupportedError(
                f"{label(self.step.proto)} goes on with a workspace of scope '{self.cell.name}' "
                "after the one above it was taken. Use a scope for each of them."
            )

    def run(self) -> None:
        """Bind names to outer blobs and run the net."""
        self._bind()
        net = self.step.nets["net"]
        block = self.workspace.nets.setdefault(net.name, net)
        self.reader.within(self.workspace).run(block)
        if self.step.args.bool("copy_external_blobs", False):
            self._copy_tensors()

    def _bind(self) -> None:
        """Bind the names that the workspace does not have yet.

        A new one that was on the stack before keeps the blobs that it had, whatever is bound now.
        """
        own, bound = self.workspace.own, self.workspace.bound
        for inner, outer in self.step.bindings.items():
            if inner not in own and inner not in bound:
                bound[inner] = (self.reader.workspace, outer)
            elif self.on_top and inner in bound and bound[inner][1] != outer:
                raise NetDefError(
                    f"{label(self.step.proto)} binds '{inner}' to blob '{outer}', but in the "
                    f"workspace on top of scope '{self.cell.name}' it stands for "
                    f"'{bound[inner][1]}'."
                )

    def _copy_tensors(self) -> None:
        """Give the workspace a blob of its own for each tensor outside, with what it holds now."""
        for name in list(self.workspace.bound):
            content = self.reader.state.get(self.workspace.cell(name))
            if content is not None and not isinstance(content, (Stack, Opaque)):
                del self.workspace.bound[name]
                self.reader.state[self.workspace.cell(name)] = content

    def pushed(self) -> Stack:
        """Return the stack with the workspace on top."""
        stack, columns = self._left(), self._columns()
        if BELOW in self.scope.kept:
            return stack.pushed(self.reader.op, columns)
        return replace(stack, top=self.reader.op.number(0))

    def replaced(self) -> Stack:
        """Return the stack with what the topmost workspace is now."""
        stack, columns = self._left(), self._columns()
        if BELOW in self.scope.kept:
            return stack.replaced(self.reader.op, columns)
        return replace(stack, top=self.reader.op.number(0))

    def popped(self) -> Stack:
        """Return the stack without the workspace."""
        if BELOW in self.scope.kept:
            is_live = self._lasts() or not self.reader.session.reuses
            return replace(self.stack.popped(self.reader.op), is_live=is_live)
        depth = None if self.stack.depth is None else self.stack.depth - 1
        return replace(self.stack, top=self.reader.want(self.scope, BELOW), depth=depth)

    def _lasts(self) -> bool:
        """Tell whether the workspace is not used for another one on the stack in the meantime."""
        return self.reader.is_outermost and self.position is not None

    def _left(self) -> Stack:
        """Note what the workspace is now; return the stack as one where it is on top."""
        self.scope.left[self.step] = self.workspace
        for name, cell in self.workspace.own.items():
            kind = self._kind(self.reader.state.get(cell))
            if kind is not None and not self.scope.saw(name, kind):
                self.reader.want(self.scope, name)
        if self.position is None:
            return self.stack
        known, position = self.stack.workspaces, self.position
        workspaces = (*known[:position], self.workspace, *known[position + 1 :])
        return replace(self.stack, depth=position + 1, workspaces=workspaces)

    def _kind(self, content: Content | None) -> Kind | None:
        if isinstance(content, Stack):
            return self.scope.kinds[BELOW]
        if not isinstance(content, ir.Value) or content.dtype is None:
            return None
        shape = content.shape
        return Kind(
            content.dtype, None if shape is None else tuple(map(self.reader.op.fixed, shape))
        )

    def _columns(self) -> dict[str, ir.Value]:
        """Return what is kept of the workspace; where it has no such blob, something like it."""
        found = {}
        for name, kind in self.scope.kept.items():
            cell = self.workspace.own.get(name)
            content = None if cell is None else self.reader.state.get(cell)
            value = content.top if isinstance(content, Stack) else content
            if not isinstance(value, ir.Value):
                value = vacant(self.reader.op, kind)
            if value.dtype != kind.dtype:
                raise UnsupportedError(
                    f"{label(self.step.proto)} leaves {value.dtype} in blob '{name}', another Do "
                    f"on scope '{self.cell.name}' {kind.dtype}. Use a scope for each."
                )
            found[name] = value
        found.pop(BELOW, None)
        return found

    def clear(self) -> None:
        """Forget what only this workspace holds, unless it can be seen again.

        Where nothing runs more than once, a workspace can be used again with all that it held.
        """
        if self._lasts() or self.reader.session.reuses:
            return
        for cell in self.workspace.own.values():
            held = self.reader.state.pop(cell, None)
            if isinstance(held, Stack):
                self.reader.state[cell] = held.cleared(self.reader.op)
