"""`Slice`: places may be counted from the end, and reach over it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
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
    cut = np.arange(len(starts)) if axes is None else op.static(axes, "axes") % X.ndim
    stride = np.ones(len(cut), np.int64) if steps is None else op.static(steps, "steps")
    sizes, back = np.array(X.shape, np.int64)[cut], stride < 0
    first = _clamped(starts, sizes, 0, sizes - back)
    last = _clamped(ends, sizes, np.where(back, -1, 0), sizes - back)
    xp = np if isinstance(first, np.ndarray) and isinstance(last, np.ndarray) else jnp
    lengths = op.static(xp.maximum(-((first - last) // stride), 0), "lengths")
    for axis, *part in zip(cut, first, lengths, stride, strict=True):
        X = _part(X, int(axis), *part)
    return X


def _clamped(places: Any, sizes: np.ndarray, least: Any, most: Any) -> Any:
    """Return places counted from the front, no further outside than that."""
    xp = np if isinstance(places, np.ndarray) else jnp
    places = places.astype(np.int64)
    return xp.clip(xp.where(places < 0, places + sizes, places), least, most)


def _part(X: Any, axis: int, start: Any, length: Any, step: Any) -> Any:
    """Return so many elements along an axis."""
    if isinstance(start, np.integer):
        end = start + length * step
        part = slice(int(start), None if end < 0 else int(end), int(step)) if length else slice(0)
        return X[(slice(None),) * axis + (part,)]
    if step == 1:
        return jax.lax.dynamic_slice_in_dim(jnp.asarray(X), start, int(length), axis)
    return jnp.take(X, start + step * np.arange(length), axis, mode="clip")
