"""What trips append to a tensor or a sequence: stacked, and put together once after the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.memory.late import is_read
from whileback.gradient.rules.controlflow.scattered import in_a_row
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.scopes import Carry, LoopView, behind_identity, is_standard
from whileback.graph.shapes import rank, static_shape

__all__ = ["appends"]

# ONNX Runtime 1.32 takes no other tensors apart.
TYPES = frozenset(
    ir.DataType[name] for name in "FLOAT DOUBLE FLOAT16 INT32 INT64 BOOL STRING".split()
)


@dataclass(frozen=True)
class _Joined:
    """A trip puts parts of known sizes before a tensor, or behind it, along an axis."""

    carry: Carry
    node: ir.Node
    place: int
    axis: int

    @property
    def before(self) -> list[ir.Value]:
        """The parts that come before the tensor."""
        return [required(self.node, index) for index in range(self.place)]

    @property
    def behind(self) -> list[ir.Value]:
        """The parts that come behind it."""
        return [required(self.node, index) for index in range(self.place + 1, self.count)]

    @property
    def count(self) -> int:
        """How many inputs the node has."""
        return len(self.node.inputs)

    def rows(self, op: Builder) -> list[ir.Value]:
        """Return what comes before the tensor, and what comes behind it."""
        sides = [side for side in (self.before, self.behind) if side]
        return [s[0] if len(s) == 1 else op.Concat(*s, axis=self.axis) for s in sides]

    def result(self, op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        """Join the tensor and the parts of all trips; of those before it, the last comes first."""
        initial = self.carry.initial
        joined = [self._in_a_row(op, self.behind, stacks[-1])] if self.behind else []
        if self.before:
            stack = op.Slice(stacks[0], [-1], [-(2**63) + 1], [0], [-1])
            return op.Concat(
                self._in_a_row(op, self.before, stack), initial, *joined, axis=self.axis
            )
        return op.Concat(initial, *joined, axis=self.axis)

    def _in_a_row(self, op: Builder, parts: Sequence[ir.Value], stack: ir.Value) -> ir.Value:
        initial, count = self.carry.initial, rank(self.carry.initial) or 0
        dims = [op.dim(initial, axis) for axis in range(count)]
        dims[self.axis] = op.constant([sum(_size(part, self.axis) or 0 for part in parts)])
        rows = op.Reshape(stack, op.Concat(op.dim(stack, 0), *dims, axis=0), allowzero=1)
        return in_a_row(op, rows, count, self.axis)


@dataclass(frozen=True)
class _Inserted:
    """A trip puts a tensor of a known size at an end of a sequence whose elements are known."""

    carry: Carry
    node: ir.Node
    elements: Sequence[ir.Value]
    at_front: bool
    place: int = 0

    @property
    def part(self) -> ir.Value:
        """The tensor."""
        return required(self.node, 1)

    def rows(self, _: Builder) -> list[ir.Value]:
        """Return the tensor."""
        return [self.part]

    def result(self, op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        """Take the stack apart, with the elements that were there before."""
        rows = op.Reshape(stacks[0], [-1, *(static_shape(self.part) or ())])
        first = [op.Unsqueeze(element, [0]) for element in self.elements]
        if self.at_front:
            rows = op.Slice(rows, [-1], [-(2**63) + 1], [0], [-1])
        parts = [rows, *first] if self.at_front else [*first, rows]
        whole = op.Concat(*parts, axis=0) if first else rows
        return op.SplitToSequence(whole, axis=0, keepdims=0)


def appends(view: LoopView) -> Iterator[_Joined | _Inserted]:
    """Yield what the loop appends to, and never reads."""
    for carry in view.carries:
        append = _append_to(carry)
        if append is not None and not is_read(view.body, carry, append.node, append.place):
            yield append


def _append_to(carry: Carry) -> _Joined | _Inserted | None:
    node = behind_identity(carry.output).producer()
    if node is None:
        return None
    if is_standard(node, "Concat"):
        return _joined(carry, node)
    return _inserted(carry, node) if is_standard(node, "SequenceInsert") else None


def _joined(carry: Carry, node: ir.Node) -> _Joined | None:
    count = rank(carry.initial)
    places = [k for k, v in enumerate(node.inputs) if v and behind_identity(v) is carry.input]
    if not count or len(places) != 1 or len(node.inputs) == 1:
        return None
    axis = node.attributes["axis"].as_int() % count
    parts = [required(node, index) for index in range(len(node.inputs)) if index != places[0]]
    known = all(_size(part, axis) is not None for part in parts)
    return _Joined(carry, node, places[0], axis) if known else None


def _size(part: ir.Value, axis: int) -> int | None:
    size = None if part.shape is None else part.shape[axis]
    return size if isinstance(size, int) else None


def _inserted(carry: Carry, node: ir.Node) -> _Inserted | None:
    dims, position = static_shape(required(node, 1)), optional(node, 2)
    place = None if position is None else known_ints(position)
    start = behind_identity(carry.initial).producer()
    is_known = dims is not None and 0 not in dims and required(node, 1).dtype in TYPES
    if not is_known or start is None or (position is not None and place != [0]):
        return None
    if is_standard(start, "SequenceEmpty"):
        return _Inserted(carry, node, (), position is not None)
    elements = [value for value in start.inputs if value is not None]
    alike = all(static_shape(value) == dims for value in elements)
    if not is_standard(start, "SequenceConstruct") or not alike:
        return None
    return _Inserted(carry, node, elements, position is not None)
