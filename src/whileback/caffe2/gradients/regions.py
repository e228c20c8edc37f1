"""Nets as their gradient sees them: every version of a blob has a name of its own.

A region is a list of operators that run in one workspace: the main net, or the net inside a `Do`.
Control operators have effective inputs and outputs: the blobs of their workspace that the nets
inside read or write, found through the bindings, whatever the operator's own lists say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["Control", "Frame", "Node", "Region", "Value", "plain"]


def plain(text: str) -> str:
    """Return a text in which names of values are those of their blobs.

    >>> plain("'y⟨2⟩' and 'z⟨1 in body⟩'")
    "'y' and 'z'"
    """
    return re.sub("⟨[^⟩]*⟩", "", text)


@dataclass(eq=False)
class Value:
    """What a blob holds from one write to the next; version 0 is what was there before."""

    blob: str
    version: int
    region: Region
    # The operator that wrote it; None for version 0.
    producer: Node | None = None
    # Whether its producer writes it whatever happens.
    sure: bool = True
    # The type of its elements, where that is known.
    dtype: int | None = None
    # Whether a gradient with respect to it can exist and is of use.
    active: bool = False
    # Whether the blob surely holds something then.
    certain: bool = False

    @property
    def name(self) -> str:
        """The name that stands for it until gradient operators get the names of real blobs."""
        where = f" in {self.region.name}" if isinstance(self.region, Frame) else ""
        return f"{self.blob}⟨{self.version}{where}⟩"

    @property
    def is_last(self) -> bool:
        """Tell whether the blob still holds it when the region has run."""
        return self is self.region.versions[self.blob][-1]

    @property
    def copied(self) -> Value:
        """The value that it is a copy of, or a copy of a copy; itself if it is none."""
        value = self
        while value.producer and value.producer.op.type in ("Copy", "StopGradient"):
            value = value.producer.inputs[0]
        return value


@dataclass(eq=False)
class Node:
    """A plain operator: the versions of blobs that it reads and writes, in order."""

    op: OperatorDef
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def renamed(self) -> OperatorDef:
        """Return the operator with the names of versions."""
        op = OperatorDef()
        op.CopyFrom(self.op)
        op.input[:] = [value.name for value in self.inputs]
        op.output[:] = [value.name for value in self.outputs]
        return op


@dataclass(eq=False)
class Control(Node):
    """An If, a While or a Do; `inputs` and `outputs` are its effective ones."""

    # By the argument that holds the net: "then_net", "else_net", "loop_net", "cond_net", "net".
    frames: dict[str, Frame] = field(default_factory=dict)
    # What decides between the branches of an If.
    condition: Value | None = None
    # What it may read: the versions before it, by blob.
    entry: dict[str, Value] = field(default_factory=dict)
    # What it may write: the versions after it, by blob.
    exit: dict[str, Value] = field(default_factory=dict)


class Region:
    """A list of operators in one workspace, with all versions of its blobs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.versions: dict[str, list[Value]] = {}
        # Blobs that are surely written, whatever branches are taken.
        self.sure: set[str] = set()
        # Blobs whose first version is read, by an operator or because they may stay as they are.
        self.entered: dict[str, None] = {}
        # Of these, the ones that an operator names as an input.
        self.named: dict[str, None] = {}

    def first(self, blob: str) -> Value:
        """Return version 0 of a blob."""
        return self.versions.setdefault(blob, [Value(blob, 0, self)])[0]

    def last(self, blob: str) -> Value:
        """Return the version that a blob holds in the end, or while the region is being made."""
        self.first(blob)
        return self.versions[blob][-1]

    def read(self, blob: str, named: bool = True) -> Value:
        """Return the version that an operator added now reads."""
        value = self.last(blob)
        if value.version == 0:
            self.entered[blob] = None
            if named:
                self.named[blob] = None
        return value

    def write(self, blob: str, producer: Node, surely: bool = True) -> Value:
        """Return the version that an operator added now writes."""
        self.first(blob)
        value = Value(blob, len(self.versions[blob]), self, producer, surely)
        self.versions[blob].append(value)
        if surely:
            self.sure.add(blob)
        return value

    def is_written(self, blob: str) -> bool:
        """Tell whether an operator may write a blob."""
        return len(self.versions.get(blob, ())) > 1

    @property
    def values(self) -> Iterator[Value]:
        """All versions of all blobs."""
        return (value for versions in self.versions.values() for value in versions)

    @property
    def frames(self) -> Iterator[Frame]:
        """The frames of the control operators in it."""
        for node in self.nodes:
            if isinstance(node, Control):
                yield from node.frames.values()

    @property
    def all_regions(self) -> Iterator[Region]:
        """Itself and what is inside it."""
        yield self
        for frame in self.frames:
            yield from frame.all_regions


class Frame(Region):
    """The net inside a `Do`, or one that is to be put inside a new `Do`.

    Some of its blobs stand for blobs of the workspace around it, the others are its own: each run
    of the `Do` leaves these behind, for the gradient to read.
    """

    owner: Control

    def __init__(self, name: str, net: NetDef, parent: Region, do: OperatorDef | None) -> None:
        super().__init__(name)
        self.net = net
        self.parent = parent
        # The operator that the net came from, or None where it stood without one.
        self.do = do
        # The names outside by the names inside, and the other way round.
        self.outer: dict[str, str] = {}
        self.inner: dict[str, str] = {}
        # The bound names that were local to a workspace used again, which others read.
        self.shared: set[str] = set()
        self.scope = ""
        # Whether the scope is made for this frame alone.
        self.own_scope = False
        # Whether a HasScope of the net reads the scope of its Do.
        self.asked = False

    def bind(self, inner: str, outer: str) -> None:
        """Let a name inside stand for a blob outside."""
        self.outer[inner] = outer
        self.inner[outer] = inner
        self.first(inner)

    def outside(self, blobs: Iterable[str]) -> dict[str, None]:
        """Return the names outside of those among some blobs that stand for outer ones."""
        return {self.outer[blob]: None for blob in blobs if blob in self.outer}

    def written(self) -> dict[str, None]:
        """Return the outer blobs that it may write."""
        return self.outside(blob for blob in self.outer if self.is_written(blob))
