"""Tensors that are made of their shape alone."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.linear import CountOf, Linear, is_number
from whileback.engines.xla.operator import Operator, concrete, is_static
from whileback.engines.xla.operators.numbers import is_integer
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []

# Larger constants are made where the program runs: XLA takes long to compile large ones.
_LARGE = 1024


def _maker(shape: tuple[int, ...]) -> Any:
    return jnp if np.prod(shape) > _LARGE else np


@lowering("ConstantOfShape")
def constant_of_shape(op: Operator, shape: Any) -> Any:
    """A tensor whose elements all are `value`."""
    sizes, stack = op.sizes(shape)
    value = op.node.attributes.get("value")
    element = np.zeros((), np.float32) if value is None else value.as_tensor().numpy().reshape(())
    if stack is not None:
        return stack.like(jnp.full(sizes, element))
    return _maker(sizes).full(sizes, element)


@lowering("EyeLike", rows="each")
def eye_like(op: Operator, X: Any) -> Any:
    """1 on a diagonal of a matrix as large as X, 0 elsewhere."""
    return _maker(X.shape).eye(*X.shape, k=op.integer("k", 0), dtype=op.dtype())


@lowering("Range", folds=True)
def range_(op: Operator, start: Any, limit: Any, delta: Any) -> Any:
    """start, start + delta, start + 2·delta … before limit."""
    count, stack = _steps(op, start, limit, delta)
    steps = _maker((count,)).arange(max(count, 0)).astype(start.dtype)
    numbers = (start + steps * delta).astype(start.dtype)
    return numbers if stack is None else stack.like(numbers)


def _steps(op: Operator, start: Any, limit: Any, delta: Any) -> tuple[int, Rows | None]:
    """Return how many numbers there are; or for how many there is room, and a stack of so many."""
    distance: Any = concrete(limit - start)
    if is_integer(start.dtype) and is_static(delta) and is_number(start) and is_number(limit):
        known = op.elements(limit).item() - op.elements(start).item()
        if isinstance(known, Linear) and isinstance(known.term, CountOf) and delta == 1:
            return known.term.rows.capacity, known.term.rows
        distance = distance if isinstance(known, Linear) else np.array(known, start.dtype)
    xp = np if is_static(distance) and is_static(delta) else jnp
    wide = np.float64 if is_integer(start.dtype) else start.dtype
    count = xp.ceil(distance.astype(wide) / delta.astype(wide)).astype(np.int64)
    count = concrete(count)
    if not is_static(count) and (stack := op.stack_of(count)) is not None:
        return stack.capacity, stack
    return int(op.static(count, "count").item()), None
