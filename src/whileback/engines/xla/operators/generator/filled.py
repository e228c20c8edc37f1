"""Tensors that are made of their shape alone."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []

# Larger constants are made where the program runs: XLA takes long to compile large ones.
_LARGE = 1024


@lowering("ConstantOfShape")
def constant_of_shape(op: Operator, shape: Any) -> Any:
    """A tensor whose elements all are `value`."""
    sizes = tuple(int(size) for size in op.static(shape, "input"))
    value = op.node.attributes.get("value")
    element = np.zeros((), np.float32) if value is None else value.as_tensor().numpy().reshape(())
    return _maker(sizes).full(sizes, element)


@lowering("Range", folds=True)
def range_(op: Operator, start: Any, limit: Any, delta: Any) -> Any:
    """start, start + delta, start + 2·delta … before limit."""
    distance = (limit.astype(_real(limit)) - start.astype(_real(start))) / delta
    count = int(op.static(op.xp.ceil(distance).astype(np.int64), "count").item())
    steps = op.xp.arange(max(count, 0)).astype(start.dtype)
    return (start + steps * delta).astype(start.dtype)


def _real(number: Any) -> Any:
    """Return the type in which the number of steps is found."""
    return np.float64 if jnp.issubdtype(number.dtype, jnp.integer) else number.dtype


@lowering("EyeLike", rows="each")
def eye_like(op: Operator, X: Any) -> Any:
    """1 on a diagonal of a matrix as large as X, 0 elsewhere."""
    return _maker(X.shape).eye(*X.shape, k=op.integer("k", 0), dtype=op.dtype())


def _maker(shape: tuple[int, ...]) -> Any:
    return jnp if np.prod(shape) > _LARGE else np
