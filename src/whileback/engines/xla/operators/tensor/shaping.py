"""Operators that give the same elements another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.linear import CountOf, Linear
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def shape_of_rows(op: Operator, X: Rows) -> Any:
    """The number of rows that count, then the other sizes."""
    part = slice(op.integer("start", 0), op.integer("end", X.ndim))
    sizes = jnp.array(X.shape, jnp.int64).at[0].set(X.count.astype(jnp.int64))[part]
    op.trace.numbers.note(sizes, [Linear.of(CountOf(X)), *X.shape[1:]][part])
    return sizes


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


def reshape_rows(op: Operator, X: Any, shape: Any) -> Any:
    """Rows of another shape: each becomes one, or several, or several become one."""
    row = _row(op, X, shape) if isinstance(X, Rows) else None
    if row is None:
        return reshape(op, exact(op.trace, X), exact(op.trace, shape))
    have, want = math.prod(X.shape[1:]), math.prod(row)
    if have >= want:
        buffer = X.buffer.reshape(X.capacity * (have // want), *row)
        return X.like(buffer) if have == want else Rows(buffer, X.count * (have // want))
    joined = want // have
    room = -(-X.capacity // joined)
    missing = [(0, room * joined - X.capacity), *[(0, 0)] * (X.ndim - 1)]
    return Rows(jnp.pad(X.buffer, missing).reshape(room, *row), X.count // joined)


def _row(op: Operator, X: Rows, shape: Any) -> list[int] | None:
    """Return the shape that rows get, or None if they do not stay rows for certain."""
    count = Linear.of(CountOf(X))
    sizes = _sizes(op, [count, *X.shape[1:]], shape)
    have, given = math.prod(X.shape[1:]), [size for size in sizes[1:] if size != -1]
    if not sizes or any(isinstance(size, Linear) for size in given):
        return None
    want = math.prod(given)
    if -1 in sizes[1:]:
        stays = sizes[0] == count and want and have % want == 0
        return [have // want if size == -1 else size for size in sizes[1:]] if stays else None
    is_open = sizes[0] == -1 or isinstance(sizes[0], Linear)
    return given if is_open and have and want and min(have % want, want % have) == 0 else None


@lowering("Reshape", folds=True, rows=reshape_rows)
def reshape(op: Operator, X: Any, shape: Any) -> Any:
    """The same elements in another shape; 0 keeps a size, -1 takes what is left."""
    sizes = _sizes(op, X.shape, shape)
    unknown = [axis for axis, size in enumerate(sizes) if isinstance(size, Linear) or size == -1]
    if len(unknown) > 1:
        sizes = _sizes(op, X.shape, op.static(shape, "shape"))
    elif unknown:
        sizes[unknown[0]] = -1
    return op.xp.reshape(X, sizes)


def _sizes(op: Operator, kept: Sequence[Any], shape: Any) -> list[Any]:
    """Return the sizes asked for, as far as they are known, with those that are kept."""
    sizes = list(op.elements(shape))
    if op.integer("allowzero", 0):
        return sizes
    return [kept[axis] if size == 0 else size for axis, size in enumerate(sizes)]


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


def expand_rows(op: Operator, X: Any, shape: Any) -> Any:
    """Rows stay rows if none is repeated as a whole."""
    shape = exact(op.trace, shape)
    if isinstance(X, Rows):
        sizes, stack = op.sizes(shape)
        first = sizes[0] if stack is None and len(sizes) == X.ndim else 1
        is_mine = stack is None or stack.count is X.count
        if len(sizes) <= X.ndim and first == 1 and is_mine:
            others = sizes[max(len(sizes) - X.ndim + 1, 0) :]
            return X.like(jnp.broadcast_to(X.buffer, np.broadcast_shapes(X.shape, others)))
    return expand(op, exact(op.trace, X), shape)


@lowering("Expand", folds=True, rows=expand_rows)
def expand(op: Operator, X: Any, shape: Any) -> Any:
    """X repeated along axes of size 1, or as so many rows as a stack has."""
    sizes, stack = op.sizes(shape)
    if stack is not None and X.shape[: max(X.ndim - len(sizes) + 1, 0)] not in ((), (1,)):
        sizes, stack = tuple(op.static(shape, "shape")), None
    result = op.xp.broadcast_to(X, np.broadcast_shapes(X.shape, sizes))
    return result if stack is None else stack.like(result)


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
