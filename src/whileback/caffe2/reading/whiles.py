"""Reads `While` and `ONNXWhile`."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.caffe2.reading.cells import Cell
from whileback.caffe2.reading.conditions import (
    check_one_element,
    first,
    first_element,
    only_element,
)
from whileback.caffe2.reading.loop import Loop
from whileback.caffe2.reading.nets import Step, carried_count
from whileback.caffe2.reading.plans import Plan
from whileback.caffe2.reading.reader import Reader, controls
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.graph.shapes import describe

__all__: list[str] = []


def _while(reader: Reader, step: Step) -> None:
    """Run cond_net and, as long as the condition is true, loop_net and cond_net.

    Only before the first trip the condition must have one element; later its first one counts.
    """
    name, test = step.proto.input[0], step.nets.get("cond_net")
    if test is None:
        start = only_element(reader, step, name)
    else:
        check_one_element(reader, step, name)
        reader.run(test)
        start = first_element(reader, step, name)
    written = [reader.cell(each) for each in sorted(step.writes)]
    while True:
        loop = Loop(reader, step, written)
        loop.body.run(step.nets["loop_net"])
        if test is not None:
            loop.body.run(test)
        proceed = first_element(loop.body, step, name)
        if loop.is_settled():
            break
        loop.release()
    loop.emit(None, start, proceed, name)


def _onnx_while(reader: Reader, step: Step) -> None:
    """Run the body as `Loop` of ONNX does, in a workspace of its own unless scopes are disabled."""
    made = _OnnxWhile(reader, step)
    limit, start = made.begin()
    while True:
        loop = Loop(reader, step, made.written())
        proceed, rows = made.trip(loop)
        if loop.is_settled():
            break
        loop.release()
    stacks = [loop.stacked(row) for row in rows]
    loop.emit(limit, start, proceed, step.proto.output[0] if step.proto.output else "ONNXWhile")
    made.end(stacks)


class _OnnxWhile:
    """An `ONNXWhile`, and the workspace that its body runs in."""

    def __init__(self, reader: Reader, step: Step) -> None:
        self.step = step
        self.proto = step.proto
        self.reader = reader
        self.block = step.nets["body"]
        self.has_scopes = not step.args.bool("disable_scopes", False)
        workspace = Plan.of(reader, step).workspace if self.has_scopes else reader.workspace
        self.inside = reader.within(workspace)
        self.number, self.condition, *carried = self.block.inputs
        self.carried = carried[: carried_count(step.proto)]

    def written(self) -> list[Cell]:
        """Return the blobs that the body may write."""
        names = {*self.block.inputs, *self.block.writes}
        return [self.inside.cell(name) for name in sorted(names)]

    def begin(self) -> tuple[ir.Value | None, ir.Value]:
        """Set the body's blobs; return the most trips it makes, and whether it makes the first."""
        op, count = self.reader.op, self.reader.tensor(self.proto, self.proto.input[0])
        if count.dtype != ir.DataType.INT64:
            raise NetDefError(
                f"{label(self.proto)} needs INT64 as its trip count, but '{self.proto.input[0]}' "
                f"is {describe(count)}."
            )
        start = first_element(self.reader, self.step, self.proto.input[1])
        self.inside.write(self.number, op.number(0))
        self.inside.write(self.condition, op.Reshape(start, [1]))
        for inner, outer in zip(self.carried, self.proto.input[2:], strict=False):
            self.inside.write(inner, self.reader.tensor(self.proto, outer))
        limited = self.step.args.bool("has_trip_count", False)
        return first(op, count) if limited else None, self._decides(start)

    def _decides(self, condition: ir.Value) -> ir.Value:
        """Return the condition, or true if the loop does not look at it."""
        if self.step.args.bool("has_cond", False):
            return condition
        return self.reader.op.constant(np.array(True))

    def trip(self, loop: Loop) -> tuple[ir.Value, list[ir.Value]]:
        """Run the body; return whether there is another trip, and the rows of the stacks.

        Blobs are copied to the next trip one after the other: one that is carried to another one
        has its new value there if it comes first.
        """
        inside, (condition, *outputs) = loop.body.within(self.inside.workspace), self.block.outputs
        inside.write(self.number, loop.trip)
        inside.run(self.block)
        inside.write(self.condition, inside.tensor(self.proto, condition))
        for inner, name in zip(self.carried, outputs, strict=False):
            inside.write(inner, inside.tensor(self.proto, name))
        rows = [inside.tensor(self.proto, name) for name in outputs[len(self.carried) :]]
        inside.write(self.number, inside.op.Add(loop.trip, 1))
        proceed = self._decides(first_element(inside, self.step, self.condition))
        if self.has_scopes:
            for name in inside.workspace.own.keys() - self.block.inputs:
                loop.body.state.pop(inside.cell(name), None)
        return proceed, rows

    def end(self, stacks: list[ir.Value]) -> None:
        """Write the outputs. Rows with one element along their first axis lie along it."""
        names = self.proto.output
        for inner, name in zip(self.carried, names, strict=False):
            self.reader.write(name, self.inside.tensor(self.proto, inner))
        for name, stack in zip(names[len(self.carried) :], stacks, strict=True):
            if stack.shape is None:
                raise NetDefError(
                    f"{label(self.proto)} needs the rank of what it stacks in blob '{name}', which "
                    "is not known. Give the shapes of the net's inputs."
                )
            along = len(stack.shape) > 1 and stack.shape[1] == 1
            self.reader.write(name, self.reader.op.Squeeze(stack, [1]) if along else stack)


controls.update(While=_while, ONNXWhile=_onnx_while)
