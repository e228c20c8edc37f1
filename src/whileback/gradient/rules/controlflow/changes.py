"""Changes that can be undone: what trips add to a carried value, cut off it, or write over in it.

To keep such a value from every trip takes as many of them. What a trip takes away is small, and so
is the place of what it adds: with these, the value after the trip turns into the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as ir

from whileback.gradient.rules.controlflow.stacked import ELEMENTWISE
from whileback.gradient.rules.controlflow.variation import shape_varies
from whileback.gradient.rules.controlflow.writes import FEW, Write, small_writes
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.tensor.slicing import added_ends
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.scopes import (
    Carry,
    LoopView,
    behind_identity,
    branches,
    is_loop,
    is_standard,
    loop_view,
)
from whileback.graph.shapes import rank, same_shape, size

__all__ = ["Change", "Step", "changes", "in_other_form"]

END = 2**63 - 1
# What these make of a value is as large as the value, and cheap to make again, as is what
# elementwise operators make of it.
FORMS = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")

# Emits in the forward body what has to be kept.
Keep = Callable[[Builder], Sequence[ir.Value]]
# Emits the value before from the value after and what was kept.
Restore = Callable[..., ir.Value]


@dataclass(frozen=True)
class Step:
    """One node that makes `after` of `before`."""

    before: ir.Value
    after: ir.Value
    keep: Keep
    restore: Restore


@dataclass(frozen=True)
class Change:
    """What a trip does to a carried value, step by step."""

    carry: Carry
    steps: tuple[Step, ...]

    @property
    def versions(self) -> set[ir.Value]:
        """The value before the trip, between the steps, and after the trip."""
        between = {value for step in self.steps for value in (step.before, step.after)}
        return between | {self.carry.input, self.carry.output}


def changes(view: LoopView) -> list[Change]:
    """Return what a trip does to carried values, where it can be undone for little.

    Those are buffers, values whose shape changes from trip to trip, and windows, which lose at one
    end what they get at the other.
    """
    found = [Change(write.carry, (_written(write),)) for write in small_writes(view)]
    written, varying = {change.carry.input for change in found}, shape_varies(view)
    for carry in view.carries:
        steps = [] if carry.input in written else _steps(carry.output, carry.input)
        if steps and (carry.input in varying or FEW * sum(map(_share, steps)) < 1):
            found.append(Change(carry, tuple(steps)))
    return found


def _share(step: Step) -> float:
    """Return what part of the larger value a step adds or takes away; 0 if that is not known."""
    dims = zip(step.before.shape or (), step.after.shape or (), strict=False)
    known = [(a, b) for a, b in dims if isinstance(a, int) and isinstance(b, int)]
    return max((abs(a - b) / max(a, b, 1) for a, b in known), default=0.0)


def in_other_form(body: ir.Graph, values: Iterable[ir.Value]) -> set[ir.Value]:
    """Return the values themselves, and what is made of each element of them."""
    found = set(values)
    for node in body:
        read = [value for value in node.inputs if value is not None and value in found]
        as_large = any(same_shape(value, node.outputs[0]) for value in read)
        if (read and is_standard(node, *FORMS)) or (as_large and is_standard(node, *ELEMENTWISE)):
            found.update(node.outputs)
    return found


def _steps(value: ir.Value, start: ir.Value) -> list[Step] | None:
    """Return the steps that lead from one value of a body to another, or None."""
    value = behind_identity(value)
    if value is start:
        return []
    node = value.producer()
    if node is None or node.graph is not start.graph or not is_standard(node, *_STEPS):
        return None
    for step in _STEPS[node.op_type](node, value, start):
        before = _steps(step.before, start)
        if before is not None:
            return [*before, step]
    return None


def _written(write: Write) -> Step:
    """What was at the places is put back there."""

    def keep(op: Builder) -> Sequence[ir.Value]:
        (places,) = op.own([write.indices])
        return places, write.get(op, write.carry.input, places)

    def restore(op: Builder, after: ir.Value, *kept: ir.Value) -> ir.Value:
        return write.put(op, after, *kept)

    return Step(write.carry.input, write.node.outputs[0], keep, restore)


def _joined(node: ir.Node, after: ir.Value, _: ir.Value) -> Iterator[Step]:
    """A part is cut out of what it was joined to."""
    parts = [required(node, index) for index in range(len(node.inputs))]
    axis = node.attributes["axis"].as_int()
    # What is large is not told by a number.
    for place, part in sorted(
        enumerate(parts), key=lambda each: size(each[1]) or END, reverse=True
    ):
        yield Step(part, after, partial(_ends, parts[: place + 1], axis), _part(axis))


def _ends(parts: Sequence[ir.Value], axis: int, op: Builder) -> Sequence[ir.Value]:
    """Return where the last of some parts begins, and where it ends."""
    begin = op.add(*(op.dim(part, axis) for part in parts[:-1])) or op.constant([0])
    return begin, op.Add(begin, op.dim(parts[-1], axis))


def _longer(node: ir.Node, after: ir.Value, start: ir.Value) -> Iterator[Step]:
    """So it is where a branch or a loop puts something behind a value, or in front of it."""
    for axis in range(rank(after) or 0):
        for last in (False, True):
            if _is_end(after, start, axis, last):
                yield Step(start, after, partial(_end, start, after, axis, last), _part(axis))


def _end(part: ir.Value, whole: ir.Value, axis: int, last: bool, op: Builder) -> Sequence[ir.Value]:
    """Return where a part begins and ends that is the first or the last one."""
    size, end = op.dim(part, axis), op.dim(whole, axis)
    return (op.Sub(end, size), end) if last else (op.constant([0]), size)


def _part(axis: int) -> Restore:
    return lambda op, after, begin, end: op.Slice(after, begin, end, [axis])


def _is_end(value: ir.Value, start: ir.Value, axis: int, last: bool) -> bool:
    """Tell whether a value begins, or ends if `last`, with another one along an axis."""
    value = behind_identity(value)
    if value is start:
        return True
    node, count = value.producer(), rank(value)
    if node is None or not count:
        return False
    if is_standard(node, "Concat") and node.attributes["axis"].as_int() % count == axis:
        return _is_end(required(node, -1 if last else 0), start, axis, last)
    if is_standard(node, "If"):
        sides = (branch.outputs[value.index() or 0] for branch in branches(node))
        return all(_is_end(side, start, axis, last) for side in sides)
    carries = loop_view(node).carries if is_loop(node) else ()
    return any(
        carry.result is value
        and _is_end(carry.initial, start, axis, last)
        and _is_end(carry.output, carry.input, axis, last)
        for carry in carries
    )


def _axis(node: ir.Node) -> int | None:
    """Return the only axis along which a `Slice` cuts, if it takes all between two places."""
    steps, axes = known_ints(optional(node, 4)), known_ints(optional(node, 3))
    starts = required(node, 1)
    single = starts.shape is not None and starts.shape[0] == 1
    plain = optional(node, 4) is None or steps == [1]
    if not single or not plain or (optional(node, 3) is not None and axes is None):
        return None
    return axes[0] if axes else 0


def _cut(node: ir.Node, after: ir.Value, _: ir.Value) -> Iterator[Step]:
    """What was cut off is joined on again, on both sides."""
    axis = _axis(node)
    if axis is None:
        return
    before, starts, ends = (required(node, index) for index in range(3))
    at_front = known_ints(starts) != [0]
    at_end = (known_ints(ends) or [0])[0] < 2**31 - 1

    def keep(op: Builder) -> Sequence[ir.Value]:
        front = op.Slice(before, [0], op.cast(starts, ir.DataType.INT64), [axis])
        end = op.Add(op.dim(front, axis), op.dim(after, axis))
        return [front] * at_front + ([op.Slice(before, end, [END], [axis])] if at_end else [])

    yield Step(before, after, keep, _rejoin(int(at_front), axis))


def _split(node: ir.Node, after: ir.Value, _: ir.Value) -> Iterator[Step]:
    """The parts are joined again."""
    others = [part for part in node.outputs if part is not after]
    restore = _rejoin(after.index() or 0, node.attributes.get_int("axis", 0))
    yield Step(required(node), after, lambda op: op.own(others), restore)


def _rejoin(place: int, axis: int) -> Restore:
    return lambda op, after, *parts: op.Concat(*parts[:place], after, *parts[place:], axis=axis)


def _padded(node: ir.Node, after: ir.Value, _: ir.Value) -> Iterator[Step]:
    """What was added at the ends is cut off again."""
    cut = added_ends(node)
    if cut is not None and cut[0]:
        yield Step(required(node), after, lambda op: [], lambda op, after: op.Slice(after, *cut))


def _inserted(node: ir.Node, after: ir.Value, _: ir.Value) -> Iterator[Step]:
    """The element is erased again."""
    before, position = required(node), optional(node, 2)

    def keep(op: Builder) -> Sequence[ir.Value]:
        return [] if position is None else [_place(op, before, position)]

    yield Step(before, after, keep, lambda op, after, *place: op.SequenceErase(after, *place))


def _erased(node: ir.Node, after: ir.Value, _: ir.Value) -> Iterator[Step]:
    """The element is inserted again."""
    before, position = required(node), optional(node, 1)

    def keep(op: Builder) -> Sequence[ir.Value]:
        place = op.constant(-1) if position is None else position
        return [op.SequenceAt(before, place), _place(op, before, place)]

    yield Step(before, after, keep, lambda op, after, *kept: op.SequenceInsert(after, *kept))


def _place(op: Builder, sequence: ir.Value, position: ir.Value) -> ir.Value:
    """Return the number of a place that may be counted from the end."""
    place = op.cast(position, ir.DataType.INT64)
    return op.Where(op.Less(place, 0), op.Add(place, op.SequenceLength(sequence)), place)


_STEPS: dict[str, Callable[[ir.Node, ir.Value, ir.Value], Iterator[Step]]] = {
    "Concat": _joined,
    "If": _longer,
    "Loop": _longer,
    "Pad": _padded,
    "SequenceErase": _erased,
    "SequenceInsert": _inserted,
    "Slice": _cut,
    "Split": _split,
}
