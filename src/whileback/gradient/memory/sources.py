"""Carried values that get one row in every trip: buffers, growing tensors, growing sequences."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from whileback.gradient.memory.places import known, offset, summand
from whileback.gradient.rules.controlflow.writes import Write, small_writes
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Builder
from whileback.graph.scopes import Carry, LoopView, behind_identity, is_standard
from whileback.graph.shapes import rank, same_dim, same_shape, static_shape

__all__ = ["Source", "source"]


@dataclass(frozen=True)
class Source:
    """How a trip gives a carried value a row.

    Attributes:
        carry: the value.
        node: the node that does it, and reads the value in this `place`.
        axis: along which axis rows lie; None for a sequence.
        rank: how many axes the value has; 0 for a sequence.
        begin: the place of the first trip's row; None if rows are put behind the value.
    """

    carry: Carry
    node: ir.Node
    place: int
    axis: int | None
    rank: int
    begin: int | None

    @property
    def part(self) -> ir.Value:
        """What it puts there; another value once nodes that it reads were replaced."""
        return required(self.node, 2 if self.node.op_type.startswith("Scatter") else 1)

    @property
    def grows(self) -> bool:
        """Tell whether rows are put behind the value."""
        return self.begin is None

    @property
    def length(self) -> int | None:
        """How many rows there are before the loop, if it is known."""
        initial = self.carry.initial
        if self.axis is not None:
            size = None if initial.shape is None else initial.shape[self.axis]
            return size if isinstance(size, int) else None
        start = behind_identity(initial).producer()
        if start is not None and is_standard(start, "SequenceEmpty"):
            return 0
        made = start is not None and is_standard(start, "SequenceConstruct")
        return len(start.inputs) if start is not None and made else None

    def holds(self, depth: int) -> bool:
        """Tell whether a row read so many trips later has not been written to before its time.

        A place below 0 counts from the end of a buffer.
        """
        if self.begin is None or self.begin == 0 or depth <= self.begin:
            return True
        return self.length is not None and depth <= self.length

    def dims(self, op: Builder) -> list[ir.Value]:
        """Return the sizes of a row."""
        if self.axis is None:
            return [op.constant([dim]) for dim in static_shape(self.part) or ()]
        axes = (axis for axis in range(self.rank) if axis != self.axis)
        return [op.dim(self.carry.initial, axis) for axis in axes]

    def row(self, op: Builder) -> ir.Value:
        """Return the row that a trip puts there."""
        if self.axis is None:
            return self.part
        if self.node.op_type == "ScatterND":
            extra = (rank(required(self.node, 1)) or 1) - 1
            return op.Squeeze(self.part, [*range(extra)]) if extra else self.part
        return op.Squeeze(self.part, [self.axis])

    def first(self, op: Builder, delay: int) -> ir.Value:
        """Return the row that the first trip reads so many trips after it was written."""
        place = (self.begin or 0) - delay
        if self.axis is None:
            return op.SequenceAt(self.carry.initial, place)
        return op.Gather(self.carry.initial, place, axis=self.axis)

    def as_read(self, op: Builder, row: ir.Value, node: ir.Node) -> ir.Value:
        """Return a row in the shape in which a node reads it."""
        count = 0 if self.axis is None else (rank(required(node, 1)) or 0)
        if is_standard(node, "GatherND"):
            count -= 1
        axes = [(self.axis or 0) + each for each in range(count)]
        return op.Unsqueeze(row, axes) if axes else op.Identity(row)

    def delay(self, view: LoopView, node: ir.Node, after: bool) -> int | None:
        """Return how many trips after a row was written a node reads it."""
        if not self._reads_one(node):
            return None
        index = required(node, 1)
        if self.begin is not None:
            place = offset(view, index)
            return None if place is None else self.begin - place
        from_end = self._from_end(index)
        if from_end is not None:
            return from_end - int(after)
        place, length = offset(view, index), self.length
        return None if place is None or place < 0 or length is None else length - place

    def _reads_one(self, node: ir.Node) -> bool:
        """Tell whether a node reads one row."""
        if self.axis is None:
            return is_standard(node, "SequenceAt")
        dims = static_shape(required(node, 1)) if len(node.inputs) == 2 else None
        if dims is None or prod(dims) != 1:
            return False
        if is_standard(node, "GatherND"):
            return not self.axis and not node.attributes.get_int("batch_dims", 0)
        axis = node.attributes.get_int("axis", 0)
        return is_standard(node, "Gather") and axis % self.rank == self.axis

    def _from_end(self, index: ir.Value) -> int | None:
        """Return the number of a place counted from the end, if it is told so."""
        number = known(index)
        if number is not None:
            return -number if number < 0 else None
        more = summand(behind_identity(index))
        node = None if more is None else behind_identity(more[0]).producer()
        if more is None or node is None or not is_standard(node, "SequenceLength"):
            return None
        read = behind_identity(required(node))
        longer = int(read is self.node.outputs[0])
        return -more[1] - longer if longer or read is self.carry.input else None


def source(view: LoopView, carry: Carry) -> Source | None:
    """Return how a trip gives a carried value a row, if that is all that it does to it."""
    for write in small_writes(view):
        if write.carry.input is carry.input:
            return _written(view, write)
    node = behind_identity(carry.output).producer()
    if node is None or node.graph is not view.body or len(node.inputs) != 2:
        return None
    if behind_identity(required(node)) is not carry.input:
        return None
    if is_standard(node, "Concat"):
        return _joined(carry, node)
    return _inserted(carry, node) if is_standard(node, "SequenceInsert") else None


def _inserted(carry: Carry, node: ir.Node) -> Source | None:
    part, start = required(node, 1), behind_identity(carry.initial).producer()
    is_empty = start is not None and is_standard(start, "SequenceEmpty")
    if static_shape(part) is None or not (is_empty or same_shape(carry.initial, part)):
        return None
    return Source(carry, node, 0, None, 0, None)


def _joined(carry: Carry, node: ir.Node) -> Source | None:
    count, part = rank(carry.initial), required(node, 1)
    axis = node.attributes["axis"].as_int() % (count or 1)
    if not count or part.shape is None or part.shape[axis] != 1:
        return None
    return Source(carry, node, 0, axis, count, None)


def _written(view: LoopView, write: Write) -> Source | None:
    count, axis, indices = rank(write.carry.initial) or 0, write.axis or 0, write.indices
    if write.axis is not None:
        found = _one_for_all(write, axis)
        if found is None:
            return None
        indices = found
    elif write.depth != 1 or write.count != 1:
        return None
    begin = offset(view, indices)
    if begin is None or begin < 0 or not write.replaces:
        return None
    return Source(write.carry, write.node, 0, axis, count, begin)


def _one_for_all(write: Write, axis: int) -> ir.Value | None:
    """Return the place that all elements of one row, and no others, are written to."""
    node = behind_identity(write.indices).producer()
    dims, sizes = write.indices.shape, write.carry.initial.shape
    if node is None or not is_standard(node, "Expand") or dims is None or sizes is None:
        return None
    pairs = list(zip(dims, sizes, strict=True))
    whole = all(same_dim(m, n) for k, (m, n) in enumerate(pairs) if k != axis)
    single = static_shape(required(node)) is not None and dims[axis] == 1
    return required(node) if whole and single and optional(node, 1) is not None else None
