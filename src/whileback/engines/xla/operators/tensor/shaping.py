"""Operators that move elements."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

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


@lowering("Transpose", folds=True)
def transpose(op: Operator, X: Any) -> Any:
    """Axes in another order."""
    return op.xp.transpose(X, op.integers("perm"))


def reshape_rows(op: Operator, X: Rows, shape: Any) -> Any:
    """Rows that become several each, or others of the same number of elements."""
    sizes = op.static(shape, "shape")
    result = X.buffer.reshape(tuple(int(size) for size in sizes))
    return (
        X.like(result)
        if result.shape[0] == X.capacity
        else Rows(result, X.count * (result.shape[0] // X.capacity))
    )


@lowering("Reshape", folds=True, rows=reshape_rows)
def reshape(op: Operator, X: Any, shape: Any) -> Any:
    """The same elements in another shape; 0 keeps a size, -1 takes what is left."""
    sizes = [int(size) for size in op.static(shape, "shape")]
    if not op.integer("allowzero", 0):
        sizes = [X.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return op.xp.reshape(X, sizes)


@lowering("Expand", folds=True)
def expand(op: Operator, X: Any, shape: Any) -> Any:
    """X repeated along axes of size 1."""
    sizes = np.broadcast_shapes(X.shape, tuple(op.static(shape, "shape")))
    return op.xp.broadcast_to(X, sizes)
