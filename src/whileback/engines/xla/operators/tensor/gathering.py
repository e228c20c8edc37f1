"""Operators that pick elements by their places.

Places are counted from the end where they are negative. A place outside of the array is an error
if it is known while compiling; a run finds NaN there, or the least number of the type.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.tensor.places import checked
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def gather_rows(op: Operator, data: Any, indices: Any) -> Any:
    """Rows by their numbers, parts of all rows, or a row for each number of a stack of them."""
    axis = op.integer("axis", 0) % data.ndim
    if isinstance(indices, Rows):
        if axis != 0:
            return gather(op, exact(op.trace, data), exact(op.trace, indices))
        return indices.like(_gather_row(op, data, indices.buffer))
    if axis == 0:
        return _gather_row(op, data, indices)
    return data.like(gather(op, data.buffer, indices))


def taken(data: Any, places: Any, axis: int) -> Any:
    """Take parts by their numbers, of nothing zeros: a loop without trips may ask for a part."""
    if data.shape[axis] == 0:
        shape = (
            *data.shape[: axis % data.ndim],
            *jnp.shape(places),
            *data.shape[axis % data.ndim + 1 :],
        )
        return jnp.zeros(shape, data.dtype)
    return jnp.take(data, places, axis, mode="fill")


def _gather_row(op: Operator, data: Any, indices: Any) -> Any:
    """Take rows, of which the last one that counts has the number -1."""
    if not isinstance(data, Rows):
        return taken(data, checked(op, indices, data.shape[0]), 0)
    count = data.count.astype(indices.dtype)
    places = jnp.where(indices < 0, indices + count, indices)
    places = jnp.where((places < 0) | (places >= count), data.capacity, places)
    return taken(data.buffer, places, 0)


@lowering("Gather", folds=True, rows=gather_rows)
def gather(op: Operator, data: Any, indices: Any) -> Any:
    """Parts of the data by their numbers along an axis, in the shape of the numbers."""
    axis = op.integer("axis", 0)
    places = checked(op, indices, data.shape[axis])
    if op.xp is np:
        return np.take(data, places, axis)
    return taken(data, places, axis)


def gather_elements_rows(op: Operator, data: Any, indices: Any) -> Any:
    """Rows of places give rows of elements: of the same row, or of an array."""
    axis = op.integer("axis", 0) % data.ndim
    if isinstance(indices, Rows) and isinstance(data, Rows) == (axis > 0):
        room = min(indices.capacity, data.capacity) if axis else indices.capacity
        source = data.buffer[:room] if axis else data
        return indices.like(gather_elements(op, source, indices.filled(0)[:room]))
    return gather_elements(op, exact(op.trace, data), exact(op.trace, indices))


@lowering("GatherElements", folds=True, rows=gather_elements_rows)
def gather_elements(op: Operator, data: Any, indices: Any) -> Any:
    """Elements that differ from their own place only along an axis."""
    axis = op.integer("axis", 0)
    places = checked(op, indices, data.shape[axis])
    others = [slice(size) for size in indices.shape]
    others[axis] = slice(None)
    data = data[tuple(others)]
    if op.xp is np:
        return np.take_along_axis(data, places, axis)
    return jnp.take_along_axis(data, places, axis, mode="fill")


def gather_nd_rows(op: Operator, data: Any, indices: Any) -> Any:
    """A part of an array for each row of coordinates."""
    if isinstance(data, Rows) or op.integer("batch_dims", 0) or indices.ndim == 1:
        return gather_nd(op, exact(op.trace, data), exact(op.trace, indices))
    return indices.like(gather_nd(op, data, indices.buffer))


@lowering("GatherND", folds=True, rows=gather_nd_rows)
def gather_nd(op: Operator, data: Any, indices: Any) -> Any:
    """Parts of the data by their coordinates, for each number of the axes that both share."""
    depth = indices.shape[-1]
    shared = op.integer("batch_dims", 0)
    sizes = np.array(data.shape[shared : shared + depth])
    places = checked(op, indices, sizes)

    def pick(array: Any, coordinates: Any) -> Any:
        index = tuple(jnp.moveaxis(jnp.asarray(coordinates), -1, 0))
        return jnp.asarray(array).at[index].get(mode="fill")

    if op.xp is np and not shared:
        return data[tuple(np.moveaxis(places, -1, 0))]
    for _ in range(shared):
        pick = jax.vmap(pick)
    return pick(data, places)
