"""Operators that choose elements by conditions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


@lowering("Where", folds=True, rows="each")
def where(op: Operator, condition: Any, X: Any, Y: Any) -> Any:
    """X where the condition holds, and Y elsewhere."""
    return op.xp.where(condition, X, Y)


@lowering("Trilu", folds=True, rows="each")
def trilu(op: Operator, X: Any, k: Any = None) -> Any:
    """X above a diagonal or below it, with that, amid zeros."""
    rows, columns = X.shape[-2:]
    distance = np.arange(columns) - np.arange(rows)[:, None]
    diagonal = 0 if k is None else k.reshape(())
    kept = distance >= diagonal if op.integer("upper", 1) else distance <= diagonal
    return op.xp.where(kept, X, np.zeros((), X.dtype))


def one_hot_rows(op: Operator, indices: Any, depth: Any, values: Any) -> Any:
    """Rows stay rows if the new axis comes after theirs."""
    if not isinstance(indices, Rows) or op.integer("axis", -1) % (indices.ndim + 1) == 0:
        return one_hot(op, *(exact(op.trace, operand) for operand in (indices, depth, values)))
    return indices.like(one_hot(op, indices.buffer, depth, exact(op.trace, values)))


@lowering("OneHot", folds=True, rows=one_hot_rows)
def one_hot(op: Operator, indices: Any, depth: Any, values: Any) -> Any:
    """The second value where the index is the number along a new axis, the first one elsewhere."""
    count = int(op.static(depth, "depth").item())
    axis = op.integer("axis", -1)
    numbers = np.arange(count).reshape(-1, *(1,) * (indices.ndim - axis % (indices.ndim + 1)))
    whole = indices.astype(np.int64)
    places = op.xp.expand_dims(op.xp.where(whole < 0, whole + count, whole), axis)
    return op.xp.where(places == numbers, values[1], values[0])


@lowering("NonZero", folds=True)
def non_zero(op: Operator, X: Any) -> Any:
    """The coordinates of what is not zero, in order, as columns."""
    holds = op.xp.atleast_1d(X != 0)
    if op.xp is np:
        return np.stack(np.nonzero(holds))
    count = int(op.static(jnp.count_nonzero(holds), "count"))
    return jnp.stack(jnp.nonzero(holds, size=count)).astype(np.int64)


@lowering("Compress", folds=True)
def compress(op: Operator, X: Any, condition: Any) -> Any:
    """Parts of X along an axis, or elements of it, where the condition holds."""
    axis = op.node.attributes.get_int("axis", None)
    if axis is None:
        X, axis = X.reshape(-1), 0
    condition = condition[: X.shape[axis]]
    if op.xp is np:
        return np.compress(condition, X, axis)
    count = int(op.static(jnp.count_nonzero(condition), "count"))
    return jnp.take(X, jnp.nonzero(condition, size=count)[0], axis, mode="clip")


@lowering("Unique")
def unique(op: Operator, X: Any) -> Any:
    """What is different, where it is first, which each element is, and how often there is each."""
    axis = op.node.attributes.get_int("axis", None)
    room = X.size if axis is None else X.shape[axis]
    found, first, inverse, counts = jnp.unique(
        jnp.asarray(X), True, True, True, axis, size=room, equal_nan=False
    )
    count = int(op.static(jnp.count_nonzero(counts), "count"))
    order = jnp.arange(count)
    if not op.integer("sorted", 1):
        order = jnp.argsort(first[:count])
        inverse = jnp.argsort(order)[inverse]
    parts = jnp.take(found, order, axis or 0, mode="clip"), first[order], inverse, counts[order]
    return parts[0], *(part.reshape(-1).astype(np.int64) for part in parts[1:])
