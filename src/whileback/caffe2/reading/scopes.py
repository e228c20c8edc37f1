"""Reads `CreateScope`, `HasScope` and `Do`: nets that run in workspaces of their own.

A forward `Do` pushes the workspace that its net has run in; a gradient `Do` takes the topmost one
and runs its net there. What a gradient `Do` reads of a workspace is kept in a table; the rest is
forgotten when the workspace is left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir

from whileback.caffe2.reading.cells import BELOW, Cell, Kind, Layout, Workspace
from whileback.caffe2.reading.contents import Content, Lost, Opaque
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader, controls
from whileback.caffe2.reading.stacks import Row, Stack, vacant
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label

__all__: list[str] = []


def _create_scope(reader: Reader, step: Step) -> None:
    """Make an empty stack, or empty the one that is there."""
    cell = reader.cell(step.proto.output[0])
    held = reader.state.get(cell)
    if not isinstance(held, Stack):
        held = Stack.empty(reader.op, cell.scope.kinds)
    reader.put(cell, held.cleared(reader.op))


def _has_scope(reader: Reader, step: Step) -> None:
    """Tell whether a workspace is on the stack, as BOOL[1]."""
    stack = _stack(reader, step)
    if stack.depth is None:
        found = reader.op.Unsqueeze(reader.op.GreaterOrEqual(stack.top, 0), [0])
    else:
        found = reader.op.constant(np.array([stack.depth > 0]))
    reader.write(step.proto.output[0], found)


def _stack(reader: Reader, step: Step) -> Stack:
    """Return the stack in the operator's last input; a `Do` overwrites anything else there."""
    name = step.proto.input[-1]
    cell = reader.cell(name)
    content = reader.recovered(cell, reader.state.get(cell))
    if isinstance(content, Stack):
        return content
    if content is None or step.proto.type == "HasScope":
        raise NetDefError(
            f"{label(step.proto)} needs a scope in blob '{name}'. Write it by CreateScope before."
        )
    return Stack.empty(reader.op, cell.scope.kinds)


def _do(reader: Reader, step: Step) -> None:
    """Run a net in a workspace, and push that workspace or take it from the stack."""
    stack = _stack(reader, step)
    if step.proto.is_gradient_op:
        frame = _Frame(reader, step, stack, on_top=True)
        frame.restore()
        frame.run()
        result = frame.popped()
    elif step.args.bool("reuse_workspace", False) and stack.depth != 0:
        frame = _Frame(reader, step, stack, on_top=True)
        frame.run()
        result = frame.replaced()
    else:
        frame = _Frame(reader, step, stack, on_top=False)
        frame.run()
        result = frame.pushed()
    frame.clear()
    reader.put(frame.cell, result)


class _Frame:
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
        self.layout = self._used_before().copy()

    def _used_before(self) -> Layout:
        """Return the workspace as it was left; one above the top was there once, too."""
        if self.position is not None and self.position < len(self.stack.layouts):
            return self.stack.layouts[self.position]
        return self._covering() if self.on_top else Layout({}, {}, {})

    def _covering(self) -> Layout:
        """Return what the workspaces that may be on top have together."""
        first, *others = self.scope.layouts.values() or [Layout({}, {}, {})]
        found = first.copy()
        for layout in others:
            for name, cell in layout.own.items():
                same = found.own.setdefault(name, cell) is cell
                if not same and not self.scope.holds_stack(name):
                    found.own[name] = self.scope.local(None, name)
            found.bound.update(layout.bound)
            found.nets.update(layout.nets)
        self._check_covering(found)
        return found

    def _check_covering(self, found: Layout) -> None:
        """Refuse workspaces in which a name does not stand for the same."""
        cells = found.cells()
        for layout in self.scope.layouts.values():
            outside = {name: cell for name, cell in layout.cells().items() if name in found.bound}
            stacks = {n: c for n, c in layout.own.items() if self.scope.holds_stack(n)}
            for name, cell in {**outside, **stacks}.items():
                if cells[name] is not cell:
                    raise UnsupportedError(
                        f"{label(self.step.proto)} runs in a workspace of scope "
                        f"'{self.cell.name}' of which only the run knows what blob '{name}' "
                        "stands for. Use a scope for each Do."
                    )

    def restore(self) -> None:
        """Give the workspace's own blobs what they held when it was left."""
        for name, cell in self.layout.own.items():
            if name in self.scope.kept:
                self.reader.state[cell] = self._kept(name, cell)
            elif name in self.scope.kinds:
                self.reader.state[cell] = Lost(self.scope, name)

    def _kept(self, name: str, cell: Cell) -> Content:
        value = self.stack.read(self.reader.op, name)
        if not self.scope.kinds[name].is_stack:
            return value
        held = self.reader.state.get(cell)
        if not isinstance(held, Stack):
            held = Stack.empty(self.reader.op, cell.scope.kinds)
        return replace(held, top=value, depth=None, layouts=())

    def run(self) -> None:
        """Bind names to outer blobs, run the net, and note what the workspace then is."""
        self._bind()
        layout, net = self.layout, self.step.nets["net"]
        workspace = Workspace(partial(self.scope.local, self.position), layout.cells())
        self.reader.within(workspace).run(layout.nets.setdefault(net.name, net))
        inside = workspace.cells.items()
        layout.own.update((name, cell) for name, cell in inside if name not in layout.bound)
        if self.step.args.bool("copy_external_blobs", False):
            self._copy_tensors()
            workspace.cells.update(layout.own)

    def _bind(self) -> None:
        """Bind the names that the workspace does not have yet.

        A new one that was on the stack before keeps the blobs that it had, whatever is bound now.
        """
        own, bound = self.layout.own, self.layout.bound
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
        for name, (workspace, outer) in list(self.layout.bound.items()):
            content = self.reader.state.get(workspace.cell(outer))
            if content is not None and not isinstance(content, (Stack, Opaque)):
                own = self.layout.own[name] = self.scope.local(self.position, name)
                self.reader.state[own] = content
                del self.layout.bound[name]

    def pushed(self) -> Stack:
        """Return the stack with the workspace on top."""
        stack, columns = self._left(), self._columns()
        if BELOW in self.scope.kept:
            return stack.pushed(self.reader.op, columns)
        return replace(stack, top=self.reader.op.number(0))

    def replaced(self) -> Stack:
        """Return the stack with what the topmost workspace is now."""
        self.scope.reused = True
        stack, columns = self._left(), self._columns()
        if BELOW not in self.scope.kept:
            return replace(stack, top=self.reader.op.number(0))
        last = stack.blocks[-1] if stack.blocks else None
        if stack.depth is None or not isinstance(last, Row) or last.index is not stack.top:
            raise UnsupportedError(
                f"{label(self.step.proto)} uses a workspace again of which only the run knows, "
                "and a gradient Do takes it later. Use reuse_workspace outside of loops only."
            )
        row = Row(last.index, {**last.columns, **columns})
        return replace(stack, blocks=(*stack.blocks[:-1], row))

    def popped(self) -> Stack:
        """Return the stack without the workspace."""
        if BELOW in self.scope.kept:
            return self.stack.popped(self.reader.op)
        depth = None if self.stack.depth is None else self.stack.depth - 1
        return replace(self.stack, top=self.reader.want(self.scope, BELOW), depth=depth)

    def _left(self) -> Stack:
        """Note what the workspace is now; return the stack as one where it is on top."""
        layout = self.scope.layouts[self.step] = self.layout
        for name, cell in self.layout.own.items():
            kind = self._kind(self.reader.state.get(cell))
            if kind is not None:
                self.scope.saw(name, kind)
        if self.position is None:
            return self.stack
        known, position = self.stack.layouts, self.position
        layouts = (*known[:position], layout, *known[position + 1 :])
        return replace(self.stack, depth=position + 1, layouts=layouts)

    def _kind(self, content: Content | None) -> Kind | None:
        if isinstance(content, Stack):
            return self.scope.kinds[BELOW]
        if not isinstance(content, ir.Value) or content.dtype is None:
            return None
        dims = content.shape and tuple(map(self.reader.op.fixed, content.shape))
        return Kind(content.dtype, None if content.shape is None else tuple(dims or ()))

    def _columns(self) -> dict[str, ir.Value]:
        """Return what is kept of the workspace; where it has no such blob, something like it."""
        found = {}
        for name in self.scope.kept:
            cell, kind = self.layout.own.get(name), self.scope.kinds[name]
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
        lasting = self.reader.is_outermost and self.position is not None
        if lasting or self.scope.reused:
            return
        for _, cell in self.layout.own.items():
            held = self.reader.state.pop(cell, None)
            if isinstance(held, Stack):
                self.reader.state[cell] = held.cleared(self.reader.op)


controls.update(CreateScope=_create_scope, HasScope=_has_scope, Do=_do)
