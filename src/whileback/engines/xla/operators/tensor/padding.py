"""`Pad`: what lies around an array."""

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

Ends = list[tuple[int, int]]


def pad_rows(op: Operator, X: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    """Rows stay rows if each is padded in itself."""
    pads, value, axes = (exact(op.trace, operand) for operand in (pads, value, axes))
    if isinstance(X, Rows) and not any(_ends(op, X.ndim, pads, axes)[0]):
        return X.like(pad(op, X.buffer, pads, value, axes))
    return pad(op, exact(op.trace, X), pads, value, axes)


@lowering("Pad", folds=True, rows=pad_rows)
def pad(op: Operator, X: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    """X amid a value or copies of itself; negative pads cut off, before others are added."""
    ends = _ends(op, X.ndim, pads, axes)
    mode = op.text("mode", "constant")
    if mode == "constant" and op.xp is jnp:
        filling = jnp.asarray(0 if value is None else value, X.dtype).reshape(())
        return jax.lax.pad(jnp.asarray(X), filling, [(*both, 0) for both in ends])
    kept = tuple(slice(max(-begin, 0), min(end, 0) or None) for begin, end in ends)
    added = [(max(begin, 0), max(end, 0)) for begin, end in ends]
    if mode == "constant":
        return np.pad(X[kept], added, constant_values=0 if value is None else value.item())
    return op.xp.pad(X[kept], added, mode=mode)


def _ends(op: Operator, rank: int, pads: Any, axes: Any) -> Ends:
    """Return how much is added before and after each axis."""
    begins, ends = op.static(pads, "pads").reshape(2, -1)
    ends_of = [(0, 0)] * rank
    padded = range(rank) if axes is None else op.static(axes, "axes")
    for axis, begin, end in zip(padded, begins, ends, strict=True):
        ends_of[axis] = int(begin), int(end)
    return ends_of
