"""Reads `CreateScope`, `HasScope` and `Do`: nets that run in workspaces of their own.

A forward `Do` pushes the workspace that its net has run in; a gradient `Do` takes the topmost one
and runs its net there.
"""

from __future__ import annotations

import numpy as np

from whileback.caffe2.reading.frames import Frame
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader, controls
from whileback.caffe2.reading.stacks import Stack
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label

__all__ = ["reuses"]


def reuses(step: Step) -> bool:
    """Tell whether an operator is a `Do` that goes on with the workspace that is there."""
    return step.proto.type == "Do" and step.args.bool("reuse_workspace", False)


def _create_scope(reader: Reader, step: Step) -> None:
    """Make an empty stack, or empty the one that is there."""
    cell = reader.cell(step.proto.output[0])
    held = reader.state.get(cell)
    if not isinstance(held, Stack):
        held = Stack.empty(reader.op, cell.scope.kept)
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
    return Stack.empty(reader.op, cell.scope.kept)


def _do(reader: Reader, step: Step) -> None:
    """Run a net in a workspace, and push that workspace or take it from the stack."""
    stack = _stack(reader, step)
    if step.proto.is_gradient_op:
        frame = Frame(reader, step, stack, on_top=True)
        frame.restore()
        frame.run()
        result = frame.popped()
    elif reuses(step) and stack.depth != 0:
        frame = Frame(reader, step, stack, on_top=True)
        frame.check_live()
        frame.run()
        result = frame.replaced()
    else:
        frame = Frame(reader, step, stack, on_top=False)
        frame.run()
        result = frame.pushed()
    frame.clear()
    reader.put(frame.cell, result)


controls.update(CreateScope=_create_scope, HasScope=_has_scope, Do=_do)
