"""Reads a net by running it on symbols: every operator emits the ONNX operators it stands for.

A blob is a cell that operators overwrite; what it holds is kept beside it, in the `state`, so that
branches and bodies can start from the same state and be compared afterwards. A workspace maps
names to cells: the operator `Do` gives the net inside it a workspace of its own, in which some
names stand for cells of the outer one.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Self

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowerings
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, WhilebackError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["Cell", "Content", "Opaque", "Reader", "State", "controls"]


class Cell:
    """A blob: the place that a name stands for."""

    def __init__(self, name: str) -> None:
        self.name = name


class Opaque:
    """What a blob holds that is no tensor and plays no part in the computation: a mutex."""


Content = ir.Value | Opaque
State = dict[Cell, Content]


class Reader:
    """Runs the operators of nets on symbols, in one workspace, emitting into one graph."""

    def __init__(self, op: Emitter, state: State, workspace: dict[str, Cell]) -> None:
        self.op = op
        self.state = state
        self.workspace = workspace

    def inside(self, op: Emitter) -> Self:
        """Return a reader that starts from the same state and emits into another graph."""
        reader = copy(self)
        reader.op = op
        reader.state = dict(self.state)
        return reader

    def cell(self, name: str) -> Cell:
        """Return the cell that a name stands for, a new one if it is unknown."""
        return self.workspace.setdefault(name, Cell(name))

    def content(self, name: str) -> Content | None:
        """Return what a blob holds, or None if it was never written."""
        return self.state.get(self.cell(name))

    def write(self, name: str, content: Content) -> None:
        """Overwrite a blob."""
        self.state[self.cell(name)] = content

    def run(self, net: NetDef) -> None:
        """Run the operators of a net in their order."""
        for op in net.op:
            if op.type in controls:
                controls[op.type](self, op)
            else:
                self._compute(op)

    def value(self, op: OperatorDef, name: str) -> ir.Value | None:
        """Return the tensor in a blob that an operator reads, None if it holds something else.

        Raises: NetDefError if it holds nothing.
        """
        content = self.content(name)
        if content is None:
            raise NetDefError(
                f"{label(op)} reads blob '{name}', which is no input of the net and which no "
                "operator before it writes. Give it as an input, or correct the order."
            )
        return content if isinstance(content, ir.Value) else None

    def _compute(self, op: OperatorDef) -> None:
        """Emit what a plain operator computes."""
        node = Operator(op, [self.value(op, name) for name in op.input])
        self.op.blob = op.output[0] if op.output else op.type
        try:
            results = lowerings[op.type](self.op, node)
        except NetDefError:
            raise
        except (WhilebackError, IndexError, ValueError) as error:
            raise NetDefError(f"{label(op)} cannot be read: {error}") from error
        results = [results] if results is None or isinstance(results, ir.Value) else list(results)
        for name, result in zip(op.output, results, strict=False):
            if result is not None:
                self.write(name, self._named(name, result))

    def _named(self, name: str, value: ir.Value) -> ir.Value:
        """Call a new value like the blob it is written to, `name@2` where that name is taken."""
        producer = value.producer()
        if producer is not None and value.name and value.name.startswith(self.op._prefix()):
            value.name = self.op.names.fresh(name)
        return value


Control = Callable[[Reader, OperatorDef], None]
controls: dict[str, Control] = {}
