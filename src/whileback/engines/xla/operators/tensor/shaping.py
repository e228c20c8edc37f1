"""Operators that give the same elements another shape."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def shape_of_rows(op: Operator, X: Rows) -> Any:
    """The number of rows that count, then the other sizes."""
    sizes = jnp.array(X.shape, jnp.int64).at[0].set(X.count.astype(jnp.int64))
    return sizes[op.integer("start", 0) : op.integer("end", X.ndim)]


@lowering("Shape", rows=shape_of_rows)
def shape(op: Operator, X: Any) -> Any:
    """The sizes of X, from one axis to another."""
    return np.array(X.shape[op.integer("start", 0) : op.integer("end", X.ndim)], np.int64)


def size_of_rows(op: Operator, X: Rows) -> Any:
    """How many elements the rows that count have."""
    return X.count.astype(jnp.int64) * math.prod(X.shape[1:])


@lowering("Size", rows=size_of_rows)
def size(op: Operator, X: Any) -> Any:
    """How many elements X has."""
    return np.array(X.size, np.int64)


def transpose_rows(op: Operator, X: Rows) -> Any:
    """Rows stay rows if axis 0 stays where it is."""
    order = op.integers("perm", tuple(range(X.ndim))[::-1])
    if order[0] != 0:
        return transpose(op, exact(op.trace, X))
    return X.like(jnp.transpose(X.buffer, order))


@lowering("Transpose", folds=True, rows=transpose_rows)
def transpose(op: Operator, X: Any) -> Any:
    """Axes in another order, by default the reverse one."""
    return op.xp.transpose(X, op.integers("perm"))


def reshape_rows(op: Operator, X: Rows, shape: Any) -> Any:
    """Rows of another shape, or several for each, as long as none has parts of two."""
    sizes = _sizes(op, X, op.static(shape, "shape"))
    each, row = math.prod(X.shape[1:]), math.prod(sizes[1:])
    if not sizes or sizes[0] != -1 or not row or each % row:
        return reshape(op, exact(op.trace, X), shape)
    several = each // row
    buffer = X.buffer.reshape(X.capacity * several, *sizes[1:])
    return X.like(buffer) if several == 1 else Rows(buffer, X.count * several)


@lowering("Reshape", folds=True, rows=reshape_rows)
def reshape(op: Operator, X: Any, shape: Any) -> Any:
    """The same elements in another shape; 0 keeps a size, -1 takes what is left."""
    return op.xp.reshape(X, _sizes(op, X, op.static(shape, "shape")))


def _sizes(op: Operator, X: Any, shape: np.ndarray) -> list[int]:
    """Return the sizes asked for, with those that are kept."""
    if op.integer("allowzero", 0):
        return [int(size) for size in shape]
    return [X.shape[axis] if size == 0 else int(size) for axis, size in enumerate(shape)]


def flatten_rows(op: Operator, X: Rows) -> Any:
    """Rows stay rows if all other axes become one."""
    if op.integer("axis", 1) % X.ndim != 1 % X.ndim:
        return flatten(op, exact(op.trace, X))
    return X.like(X.buffer.reshape(X.capacity, math.prod(X.shape[1:])))


@lowering("Flatten", folds=True, rows=flatten_rows)
def flatten(op: Operator, X: Any) -> Any:
    """The axes before one as rows, the others as columns."""
    axis = op.integer("axis", 1)
    axis += X.ndim if axis < 0 else 0
    return op.xp.reshape(X, (math.prod(X.shape[:axis]), math.prod(X.shape[axis:])))


@lowering("Expand", folds=True)
def expand(op: Operator, X: Any, shape: Any) -> Any:
    """X repeated along axes of size 1."""
    sizes = np.broadcast_shapes(X.shape, tuple(op.static(shape, "shape")))
    return op.xp.broadcast_to(X, sizes)


def squeeze_rows(op: Operator, X: Rows, axes: Any = None) -> Any:
    """Rows stay rows if axis 0 stays."""
    dropped = None if axes is None else {int(axis) % X.ndim for axis in op.static(axes, "axes")}
    if dropped is None or 0 in dropped:
        return squeeze(op, exact(op.trace, X), axes)
    return X.like(jnp.squeeze(X.buffer, tuple(dropped)))


@lowering("Squeeze", folds=True, rows=squeeze_rows)
def squeeze(op: Operator, X: Any, axes: Any = None) -> Any:
    """X without axes of size 1: those given, or all."""
    dropped = None if axes is None else tuple(int(axis) for axis in op.static(axes, "axes"))
    return op.xp.squeeze(X, dropped)


def unsqueeze_rows(op: Operator, X: Rows, axes: Any) -> Any:
    """Rows stay rows if no axis comes before axis 0."""
    places = op.static(axes, "axes").reshape(-1)
    if 0 in places % (X.ndim + places.size):
        return unsqueeze(op, exact(op.trace, X), axes)
    return X.like(jnp.expand_dims(X.buffer, tuple(map(int, places))))


@lowering("Unsqueeze", folds=True, rows=unsqueeze_rows)
def unsqueeze(op: Operator, X: Any, axes: Any) -> Any:
    """X with axes of size 1 at these places of the result."""
    return op.xp.expand_dims(X, tuple(map(int, op.static(axes, "axes").reshape(-1))))
