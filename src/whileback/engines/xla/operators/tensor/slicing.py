"""`Slice`: places may be counted from the end, and reach over it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.linear import Linear
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.axes import from_front
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def slice_rows(op: Operator, X: Any, starts: Any, ends: Any, axes: Any = None, *step: Any) -> Any:
    """Rows stay rows if each is cut in itself."""
    operands = [exact(op.trace, operand) for operand in (starts, ends, axes, *step)]
    cut = range(len(operands[0])) if axes is None else op.static(operands[2], "axes")
    if not isinstance(X, Rows) or 0 in {int(axis) % X.ndim for axis in cut}:
        return slice_(op, exact(op.trace, X), *operands)
    return X.like(slice_(op, X.buffer, *operands))


@lowering("Slice", folds=True, rows=slice_rows)
def slice_(
    op: Operator, X: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> Any:
    """X from starts to ends, in steps, along axes; both are counted from the end if negative."""
    given = range(len(starts)) if axes is None else op.static(axes, "axes")
    cut = [from_front(axis, X.ndim) for axis in given]
    stride = np.ones(len(cut), np.int64) if steps is None else op.static(steps, "steps")
    if len(set(cut)) < len(cut) or not stride.all():
        raise ValueError("each axis is cut once, in steps that are not 0")
    begins, stops = op.elements(starts), op.elements(ends)
    for place, (axis, step) in enumerate(zip(cut, stride, strict=True)):
        start, end = _number(starts, begins, place), _number(ends, stops, place)
        part = _Part(X.shape[axis], start, end, int(step))
        length = part.length(op, f"length along axis {axis}", stops[place] - begins[place])
        X = part.of(X, axis, length)
    return X


def _number(values: Any, known: np.ndarray, place: int) -> Any:
    """Return a number as an integer if it is known, else as a traced one."""
    number = known[place]
    return values[place].astype(jnp.int64) if isinstance(number, Linear) else int(number)


class _Part:
    """A part of an axis, whose first place and length may be traced."""

    def __init__(self, size: int, start: Any, end: Any, step: int) -> None:
        last = size - 1 if step < 0 else size
        self.size, self.step = size, step
        self.first = _clamped(start, size, 0, last)
        self.count = -((self.first - _clamped(end, size, last - size, last)) // step)

    def length(self, op: Operator, what: str, between: Any) -> int:
        """Return how many elements there are.

        In a loop, a part that is as long in every trip is taken to lie within the axis.
        """
        if isinstance(self.count, int):
            return max(self.count, 0)
        count = jnp.maximum(self.count, 0)
        if not op.trace.can_end and not isinstance(between, Linear):
            likely: int = max(min(-(-between // self.step), self.size), 0)
            if op.trace.assumed(f"{op.node.name}/{what}", count == likely):
                return likely
        return int(op.static(count, what))

    def of(self, X: Any, axis: int, length: int) -> Any:
        """Return so many elements along the axis."""
        if isinstance(self.first, int):
            end = self.first + length * self.step
            part = slice(self.first, None if end < 0 else end, self.step) if length else slice(0)
            return X[(slice(None),) * axis + (part,)]
        if self.step == 1:
            return jax.lax.dynamic_slice_in_dim(jnp.asarray(X), self.first, length, axis)
        return jnp.take(X, self.first + self.step * np.arange(length), axis, mode="clip")


def _clamped(place: Any, size: int, least: int, most: int) -> Any:
    """Return a place counted from the front, no further outside than that."""
    if isinstance(place, int):
        return min(max(place + size if place < 0 else place, least), most)
    return jnp.clip(jnp.where(place < 0, place + size, place), least, most)
