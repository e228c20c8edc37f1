"""What trips append to a tensor or a sequence: stacked, and put together once after the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.memory.late import is_read
from whileback.gradient.rules.controlflow.scattered import in_a_row
from whileback.gradient.rules.controlflow.tape import behind_identity
from whileback.gradient.rules.inputs import required
from whileback.graph.builder import Builder
from whileback.graph.scopes import Carry, LoopView, is_standard
from whileback.graph.shapes import rank, static_shape

__all__ = ["appends"]


@dataclass(frozen=True)
class _Joined:
    """A trip puts a part of a known size behind a tensor, or before it, along an axis."""

    carry: Carry
    node: ir.Node
    part: ir.Value
    axis: int
    size: int

    @property
    def place(self) -> int:
        """Return which input of the node the tensor is."""
        return 1 if self.node.inputs[0] is self.part else 0

    @property
    def rows(self) -> list[ir.Value]:
        """Return the part."""
        return [self.part]

    def result(self, op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        """Join the tensor and the parts of all trips; where they come first, the last one does."""
        (stack,) = stacks
        if self.place:
            stack = op.Slice(stack, [-1], [-(2**63) + 1], [0], [-1])
        initial = self.carry.initial
        count = rank(initial) or 0
        dims = [op.dim(initial, axis) for axis in range(count)]
        dims[self.axis] = op.constant([self.size])
        rows = op.Reshape(stack, op.Concat(op.dim(stack, 0), *dims, axis=0), allowzero=1)
        parts = in_a_row(op, rows, count, self.axis)
        both = [parts, initial] if self.place else [initial, parts]
        return op.Concat(*both, axis=self.axis)


@dataclass(frozen=True)
class _Inserted:
    """A trip puts a tensor of a known size at the end of a sequence that is empty at first."""

    carry: Carry
    node: ir.Node
    part: ir.Value
    dims: tuple[int, ...]
    place: int = 0

    @property
    def rows(self) -> list[ir.Value]:
        """Return the tensor."""
        return [self.part]

    def result(self, op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        """Take the stack apart."""
        return op.SplitToSequence(op.Reshape(stacks[0], [-1, *self.dims]), axis=0, keepdims=0)


def appends(view: LoopView) -> Iterator[_Joined | _Inserted]:
    """Yield what the loop appends to, and never reads."""
    for carry in view.carries:
        append = _append_to(carry)
        if append is not None and not is_read(view.body, carry, append.node, append.place):
            yield append


def _append_to(carry: Carry) -> _Joined | _Inserted | None:
    node = behind_identity(carry.output).producer()
    if node is None or len(node.inputs) != 2 or not is_standard(node, "Concat", "SequenceInsert"):
        return None
    first, part = required(node, 0), required(node, 1)
    if is_standard(node, "Concat") and behind_identity(part) is carry.input:
        part = first
    if is_standard(node, "Concat"):
        return _joined(carry, node, part)
    dims = static_shape(part)
    if dims is None or 0 in dims:
        return None
    start = behind_identity(carry.initial).producer()
    is_empty = start is not None and is_standard(start, "SequenceEmpty")
    return _Inserted(carry, node, part, dims) if is_empty else None


def _joined(carry: Carry, node: ir.Node, part: ir.Value) -> _Joined | None:
    count = rank(carry.initial)
    if not count or part.shape is None:
        return None
    axis = node.attributes["axis"].as_int() % count
    size = part.shape[axis]
    return _Joined(carry, node, part, axis, size) if isinstance(size, int) else None
