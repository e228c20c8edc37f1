"""Sequences are lists of arrays while a program is compiled."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator, is_static
from whileback.engines.xla.registry import lowering
from whileback.errors import EngineError

__all__: list[str] = []

Sequence = list[Any]


@lowering("SequenceEmpty")
def sequence_empty(op: Operator) -> Sequence:
    """A sequence of nothing."""
    return []


@lowering("SequenceConstruct")
def sequence_construct(op: Operator, *elements: Any) -> Sequence:
    """A sequence of these arrays."""
    return list(elements)


@lowering("SequenceLength")
def sequence_length(op: Operator, sequence: Sequence) -> Any:
    """How many arrays there are."""
    return np.array(len(sequence), np.int64)


@lowering("SequenceAt")
def sequence_at(op: Operator, sequence: Sequence, position: Any) -> Any:
    """The array at a place."""
    return sequence[_place(op, position, len(sequence))]


@lowering("SequenceInsert")
def sequence_insert(op: Operator, sequence: Sequence, element: Any, position: Any = None) -> Any:
    """The sequence with one more array before a place, or at its end."""
    length = len(sequence)
    place = length if position is None else _place(op, position, length, 1)
    return [*sequence[:place], element, *sequence[place:]]


@lowering("SequenceErase")
def sequence_erase(op: Operator, sequence: Sequence, position: Any = None) -> Any:
    """The sequence without the array at a place, or without the last one."""
    place = _place(op, np.array(-1) if position is None else position, len(sequence))
    return [*sequence[:place], *sequence[place + 1 :]]


def _place(op: Operator, position: Any, length: int, behind: int = 0) -> int:
    """Return a place counted from the front; one behind the last may be allowed."""
    place = int(op.static(position, "position").item())
    if not -length <= place < length + behind:
        raise EngineError(
            f"{op.node.op_type} {op.node.name!r} asks for position {place} of a sequence of "
            f"{length}. Let it lie between {-length} and {length + behind - 1}."
        )
    return place + length if place < 0 else place


@lowering("ConcatFromSequence")
def concat_from_sequence(op: Operator, sequence: Sequence) -> Any:
    """The arrays behind each other along an axis, which may be a new one."""
    xp = np if all(map(is_static, sequence)) else jnp
    join = xp.stack if op.integer("new_axis", 0) else xp.concatenate
    return join(sequence, op.integer("axis"))


@lowering("SplitToSequence", folds=True)
def split_to_sequence(op: Operator, X: Any, split: Any = None) -> Sequence:
    """Parts of X along an axis: of these sizes, or of one size, of which the last may have less."""
    axis = op.integer("axis", 0)
    length = X.shape[axis]
    sizes = np.array(1) if split is None else op.static(split, "split")
    each = sizes.item() if sizes.ndim == 0 else None
    ends = np.cumsum(sizes)[:-1] if each is None else np.arange(each, length, each)
    parts = op.xp.split(X, [int(end) for end in ends], axis) if length else []
    if split is None and not op.integer("keepdims", 1):
        return [op.xp.squeeze(part, axis) for part in parts]
    return list(parts)
