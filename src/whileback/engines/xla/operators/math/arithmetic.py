"""Operators that compute each element for itself, from two operands or more."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__ = ["quotient"]


@lowering("Add", folds=True, rows="each")
def add(op: Operator, A: Any, B: Any) -> Any:
    """C = A + B."""
    return op.xp.add(A, B)


@lowering("Sub", folds=True, rows="each")
def sub(op: Operator, A: Any, B: Any) -> Any:
    """C = A - B."""
    return op.xp.subtract(A, B)


@lowering("Mul", folds=True, rows="each")
def mul(op: Operator, A: Any, B: Any) -> Any:
    """C = A·B."""
    return op.xp.multiply(A, B)


@lowering("Div", folds=True, rows="each")
def div(op: Operator, A: Any, B: Any) -> Any:
    """C = A / B; of integers, what stands before the point."""
    return quotient(op.xp, A, B)


def quotient(xp: Any, A: Any, B: Any) -> Any:
    """Return A / B; of integers, what stands before the point."""
    if not jnp.issubdtype(A.dtype, jnp.integer):
        return xp.divide(A, B)
    if xp is jnp:
        return jax.lax.div(*jnp.broadcast_arrays(A, B))
    # NumPy rounds down.
    return A // B + ((np.fmod(A, B) != 0) & ((A < 0) != (B < 0))).astype(A.dtype)


@lowering("Mod", folds=True, rows="each")
def mod(op: Operator, A: Any, B: Any) -> Any:
    """What A / B leaves: with the sign of B, or with that of A where `fmod` is set."""
    return op.xp.fmod(A, B) if op.integer("fmod", 0) else op.xp.mod(A, B)


@lowering("Pow", folds=True, rows="each")
def power(op: Operator, X: Any, Y: Any) -> Any:
    """Z = X to the power of Y, of X's type."""
    integers = [jnp.issubdtype(A.dtype, jnp.integer) for A in (X, Y)]
    if all(integers):
        return _whole_power(op.xp, X, Y.astype(X.dtype))
    base = X.astype(np.float64) if integers[0] else X
    return op.xp.power(base, Y).astype(X.dtype)


def _whole_power(xp: Any, X: Any, Y: Any) -> Any:
    """Return a power of integers; those between -1 and 1 are 0."""
    Z = xp.power(X, abs(Y))
    return xp.where(Y < 0, xp.where(abs(X) == 1, Z, xp.zeros_like(Z)), Z)


@lowering("Max", folds=True, rows="each")
def maximum(op: Operator, *data: Any) -> Any:
    """The largest of the operands; NaN where one is NaN."""
    return reduce(op.xp.maximum, data)


@lowering("Min", folds=True, rows="each")
def minimum(op: Operator, *data: Any) -> Any:
    """The smallest of the operands; NaN where one is NaN."""
    return reduce(op.xp.minimum, data)


@lowering("Sum", folds=True, rows="each")
def sum_(op: Operator, *data: Any) -> Any:
    """The sum of the operands."""
    return reduce(op.xp.add, data)


@lowering("Mean", folds=True, rows="each")
def mean(op: Operator, *data: Any) -> Any:
    """The sum of the operands, divided by how many they are."""
    return reduce(op.xp.add, data) / np.array(len(data), op.dtype())
