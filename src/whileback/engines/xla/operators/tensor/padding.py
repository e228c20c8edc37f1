"""`Pad`: what lies around an array."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.linear import Linear
from whileback.engines.xla.operator import Operator, is_static
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def pad_rows(op: Operator, X: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    """Rows stay rows if each is padded in itself."""
    pads, value, axes = (exact(op.trace, operand) for operand in (pads, value, axes))
    if isinstance(X, Rows):
        ends = op.elements(pads).reshape(2, -1).T
        added = dict(zip(_axes(op, X.ndim, axes), ends, strict=True))
        if not any(added.get(0, ())):
            return X.like(pad(op, X.buffer, pads, value, axes))
    return pad(op, exact(op.trace, X), pads, value, axes)


@lowering("Pad", folds=True, rows=pad_rows)
def pad(op: Operator, X: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    """X amid a value or copies of itself; negative pads cut off, before others are added."""
    mode = op.text("mode", "constant")
    padded = _axes(op, X.ndim, axes)
    if mode == "constant" and op.xp is jnp:
        return _amid(op, jnp.asarray(X), pads, value, padded)
    begins, ends = op.static(pads, "pads").reshape(2, -1)
    kept, added = [slice(None)] * X.ndim, [(0, 0)] * X.ndim
    for axis, begin, end in zip(padded, begins, ends, strict=True):
        kept[axis] = slice(max(-begin, 0), min(end, 0) or None)
        added[axis] = max(begin, 0), max(end, 0)
    if mode == "constant":
        filling = 0 if value is None else value.item()
        return np.pad(X[tuple(kept)], added, constant_values=filling)
    return op.xp.pad(X[tuple(kept)], added, mode=mode)


def _axes(op: Operator, rank: int, axes: Any) -> list[int]:
    """Return the axes that are padded."""
    return [*range(rank)] if axes is None else [int(a) % rank for a in op.static(axes, "axes")]


def _amid(op: Operator, X: jax.Array, pads: Any, value: Any, axes: list[int]) -> jax.Array:
    """Return X amid a value.

    Where only the sum of both ends is known, it is cut out of X amid more of it.
    """
    begins, ends = op.elements(pads).reshape(2, -1)
    if any(isinstance(both, Linear) for both in begins + ends):
        pads = op.static(pads, "pads")
        begins, ends = pads.reshape(2, -1)
    added, first, sizes = [(0, 0, 0)] * X.ndim, [0] * X.ndim, list(X.shape)
    for place, axis in enumerate(axes):
        begin, end = begins[place], ends[place]
        sizes[axis] += int(begin + end)
        if isinstance(begin, Linear):
            added[axis] = sizes[axis], sizes[axis], 0
            first[axis] = sizes[axis] - pads[place]
        else:
            added[axis] = int(begin), int(end), 0
    filling = jnp.asarray(0 if value is None else value, X.dtype).reshape(())
    result = jax.lax.pad(X, filling, added)
    return result if is_static(pads) else jax.lax.dynamic_slice(result, first, sizes)
