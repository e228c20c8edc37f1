"""Stacks of images: operators that treat the elements of axis 0 of their first operand alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator, as_tuple
from whileback.engines.xla.rows import Rows

__all__ = ["batched", "widened"]

Function = Callable[..., Any]


def batched(function: Function) -> Function:
    """Return how the operator takes rows: those of its first operand, each for itself."""

    def on_rows(op: Operator, X: Any, *others: Any) -> Any:
        others = tuple(exact(op.trace, other) for other in others)
        if not isinstance(X, Rows):
            return function(op, X, *others)
        results = as_tuple(function(op, X.buffer, *others))
        return tuple(map(X.like, results))

    return on_rows


def widened(X: Any) -> Any:
    """Return X in a type in which sums are accurate: at least float32."""
    X = jnp.asarray(X)
    narrow = jnp.issubdtype(X.dtype, jnp.floating) and X.dtype.itemsize < 4
    return X.astype(jnp.float32) if narrow else X
