"""Operators that write to places of an array. What is written outside of it is dropped."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.tensor.places import checked
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []

Index = tuple[Any, ...]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_METHODS = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _written(op: Operator, data: Any, index: Index, updates: Any) -> Any:
    """Return the data with updates at places, or joined with what is there."""
    reduction = op.text("reduction", "none")
    if op.xp is jnp:
        at = jnp.asarray(data).at[index]
        return getattr(at, _METHODS[reduction])(updates, mode="drop")
    result = data.copy()
    if reduction == "none":
        result[index] = updates
    else:
        _UFUNCS[reduction].at(result, index, updates)
    return result


def _on_rows(op: Operator, data: Any, indices: Any, updates: Any, axis: int, scatter: Any) -> Any:
    """Write nothing for rows that do not count; a place among rows is counted from their end."""
    if isinstance(indices, Rows) != isinstance(updates, Rows):
        indices, updates = exact(op.trace, indices), exact(op.trace, updates)
    if isinstance(indices, Rows):
        room = min(indices.capacity, updates.capacity)
        outside = np.iinfo(indices.dtype).max
        indices, updates = indices.filled(outside)[:room], updates.buffer[:room]
    if not isinstance(data, Rows):
        return scatter(op, data, indices, updates)
    if axis == 0:
        moved = jnp.where(indices < 0, indices + data.count.astype(indices.dtype), indices)
        indices = jnp.where(moved < 0, data.capacity, moved)
    return data.like(scatter(op, data.buffer, indices, updates))


def scatter_elements_rows(op: Operator, data: Any, indices: Any, updates: Any) -> Any:
    """Elements of rows, or from them."""
    axis = op.integer("axis", 0) % data.ndim
    return _on_rows(op, data, indices, updates, axis, scatter_elements)


@lowering("ScatterElements", folds=True, rows=scatter_elements_rows)
def scatter_elements(op: Operator, data: Any, indices: Any, updates: Any) -> Any:
    """The data with updates at places that differ from their own only along an axis."""
    axis = op.integer("axis", 0) % data.ndim
    places = checked(op, indices, data.shape[axis])
    index = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    index[axis] = places
    return _written(op, data, tuple(index), updates)


def scatter_nd_rows(op: Operator, data: Any, indices: Any, updates: Any) -> Any:
    """Parts of rows, or from them."""
    if isinstance(data, Rows):
        data = exact(op.trace, data)
    if isinstance(indices, Rows) and indices.ndim == 1:
        indices = exact(op.trace, indices)
    return _on_rows(op, data, indices, updates, -1, scatter_nd)


@lowering("ScatterND", folds=True, rows=scatter_nd_rows)
def scatter_nd(op: Operator, data: Any, indices: Any, updates: Any) -> Any:
    """The data with updates, parts of it, at coordinates."""
    depth = indices.shape[-1]
    places = checked(op, indices, np.array(data.shape[:depth]))
    return _written(op, data, tuple(op.xp.moveaxis(places, -1, 0)), updates)


@lowering("TensorScatter")
def tensor_scatter(op: Operator, cache: Any, update: Any, starts: Any = None) -> Any:
    """The cache with the update from a place along an axis, for each number of axis 0."""
    axis = op.integer("axis", -2) % cache.ndim
    count, length, room = update.shape[0], update.shape[axis], cache.shape[axis]
    first = np.zeros(count, np.int64) if starts is None else starts
    places = first[:, None] + np.arange(length)
    circular = op.text("mode", "linear") == "circular"
    places = places % room if circular else checked(op, places, room)
    rows = jnp.moveaxis(jnp.asarray(cache), axis, 1)
    written = rows.at[np.arange(count)[:, None], places].set(jnp.moveaxis(update, axis, 1))
    return jnp.moveaxis(written, 1, axis)
