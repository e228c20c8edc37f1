"""Reads a net by running it on symbols: every operator emits the ONNX operators it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowerings
from whileback.caffe2.reading.cells import Cell, Scope, Workspace
from whileback.caffe2.reading.contents import Clash, Content, Lost, State
from whileback.caffe2.reading.emitter import Emitter
from whileback.caffe2.reading.misfits import misfit
from whileback.caffe2.reading.nets import Block, Step
from whileback.caffe2.reading.stacks import Stack
from whileback.errors import GraphError, NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import describe

__all__ = ["Control", "Reader", "Session", "controls"]


@dataclass(eq=False)
class Session:
    """What all readers of one net share, also when it is read again.

    Attributes:
        workspace: the blobs of the net itself.
        plans: what was found out of each loop.
        wanted: what turned out to be needed of workspaces that were left without keeping it; the
            net must be read once more.
        reuses: whether any `Do` goes on with a workspace.
        graph: the graph of the model.
        given: the blobs of the net itself that are there before it runs.
        versions: the tensors that are then written to each of its blobs.
    """

    workspace: Workspace = field(default_factory=Workspace)
    plans: dict[Step, Any] = field(default_factory=dict)
    wanted: list[tuple[Scope, str]] = field(default_factory=list)
    reuses: bool = False
    graph: ir.Graph | None = None
    given: Sequence[str] = ()
    versions: dict[str, list[ir.Value]] = field(default_factory=dict)

    def begin(self, graph: ir.Graph, given: Sequence[str]) -> None:
        """Begin to read the net, for the first time or again."""
        self.graph = graph
        self.given = given
        self.versions = {}

    def is_complete(self) -> bool:
        """Tell whether all was kept that was needed; else it will be the next time."""
        for scope, name in self.wanted:
            scope.kept[name] = scope.kinds[name]
        complete = not self.wanted
        self.wanted = []
        return complete


class Reader:
    """Runs the operators of nets on symbols, in one workspace, emitting into one graph."""

    def __init__(self, op: Emitter, session: Session) -> None:
        self.op = op
        self.session = session
        self.workspace = session.workspace
        self.state: State = {}

    def inside(self, op: Emitter) -> Self:
        """Return a reader that starts from the same state and emits into another graph."""
        reader = copy(self)
        reader.op = op
        reader.state = dict(self.state)
        return reader

    def within(self, workspace: Workspace) -> Self:
        """Return a reader in another workspace that changes the same state."""
        reader = copy(self)
        reader.workspace = workspace
        return reader

    @property
    def is_outermost(self) -> bool:
        """Tell whether what is emitted runs once, whatever the inputs are."""
        return self.op.graph is self.session.graph

    def cell(self, name: str) -> Cell:
        """Return the blob that a name stands for, a new one if it is unknown."""
        return self.workspace.cell(name)

    def content(self, name: str) -> Content | None:
        """Return what a blob holds, or None if it was never written."""
        return self.state.get(self.cell(name))

    def write(self, name: str, content: Content) -> None:
        """Overwrite a blob."""
        self.put(self.cell(name), content)

    def put(self, cell: Cell, content: Content) -> None:
        """Overwrite a blob."""
        self.state[cell] = content
        outermost = self.session.workspace.own.get(cell.name) is cell and self.is_outermost
        if outermost and isinstance(content, ir.Value):
            self.session.versions.setdefault(cell.name, []).append(content)

    def run(self, block: Block) -> None:
        """Run the operators of a net in their order."""
        for step in block.steps:
            if step.proto.type in controls:
                self._control(step)
            else:
                self._compute(step.proto)

    def value(self, op: OperatorDef, name: str) -> ir.Value | None:
        """Return the tensor in a blob that an operator reads, None if it holds something else.

        Raises:
            NetDefError: it holds nothing, or a scope.
            UnsupportedError: only the run tells which type the blob has.
        """
        content = self.recovered(self.cell(name), self.content(name))
        if content is None:
            raise NetDefError(
                f"{label(op)} reads blob '{name}', which is no input of the net and which no "
                "operator before it writes. Give it as an input, or correct the order."
            )
        if isinstance(content, Stack):
            raise NetDefError(f"{label(op)} reads blob '{name}', which holds a scope, no tensor.")
        if isinstance(content, Clash):
            raise UnsupportedError(
                f"{label(op)} reads blob '{name}', which is {content.types}, depending on how a "
                "condition or a loop before it went; ONNX has one type for each value. Use another "
                "name for one of them."
            )
        return content if isinstance(content, ir.Value) else None

    def tensor(self, op: OperatorDef, name: str) -> ir.Value:
        """Return the tensor in a blob that an operator reads.

        Raises: as `value`; NetDefError if the blob holds something else.
        """
        value = self.value(op, name)
        if value is None:
            raise NetDefError(f"{label(op)} needs a tensor in blob '{name}', which holds none.")
        return value

    def recovered(self, cell: Cell, content: Content | None) -> Content | None:
        """Return something like what a workspace held, if it was left without keeping it."""
        if not isinstance(content, Lost):
            return content
        value = self.want(content.scope, content.name)
        if not content.scope.kinds[content.name].is_stack:
            return value
        return replace(Stack.empty(self.op, cell.scope.kept), top=value, depth=None)

    def want(self, scope: Scope, name: str) -> ir.Value:
        """Return something like what a workspace held, and have the net read again."""
        self.session.wanted.append((scope, name))
        kind = scope.kinds[name]
        return self.op.placeholder(name, ir.TensorType(kind.dtype), self.op.shape(kind.dims))

    def _control(self, step: Step) -> None:
        """Emit an operator that reads or writes more than its tensors."""
        try:
            controls[step.proto.type](self, step)
        except GraphError as error:
            names = map(repr, step.proto.input)
            raise misfit(step.proto, "computed", names, error) from error

    def _compute(self, op: OperatorDef) -> None:
        """Emit what a plain operator computes."""
        node = Operator(op, [self.value(op, name) for name in op.input])
        self.op.blob = op.output[0] if op.output else op.type
        try:
            results = lowerings[op.type](self.op, node)
        except NetDefError:
            raise
        except UnsupportedError as error:
            raise UnsupportedError(f"{label(op)} cannot be read: {error}") from error
        except Exception as error:  # A lowering takes for granted what most operators fulfil.
            given = zip(op.input, node.inputs, strict=True)
            inputs = [f"'{name}' {'none' if v is None else describe(v)}" for name, v in given]
            raise misfit(op, "computed", inputs, error) from error
        results = [results] if results is None or isinstance(results, ir.Value) else list(results)
        for name, result in zip(op.output, results, strict=False):
            if result is not None:
                self.write(name, self._named(name, result))

    def _named(self, name: str, value: ir.Value) -> ir.Value:
        """Call a new value like the blob it is written to, as far as the name is free."""
        producer = value.producer()
        if producer is not None and value.name and value.name.startswith(self.op._prefix()):
            value.name = self.op.names.fresh(name)
        return value


Control = Callable[[Reader, Step], None]
controls: dict[str, Control] = {}
