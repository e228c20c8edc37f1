"""The largest elements along an axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.axes import along, apart
from whileback.engines.xla.operators.numbers import is_integer
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _hardmax(op: Operator, X: Any) -> Any:
    """1 at the first maximum along an axis, 0 elsewhere."""
    axis = op.integer("axis", -1)
    return jax.nn.one_hot(jnp.argmax(X, axis), X.shape[axis], axis=axis, dtype=X.dtype)


lowering("Hardmax", rows=apart(_hardmax, along(-1)))(_hardmax)


def _top_k(op: Operator, X: Any, K: Any) -> Any:
    """The K largest or smallest elements along an axis, in order, and where they are."""
    axis, count = op.integer("axis", -1), int(op.static(K, "K").item())
    keys = jnp.moveaxis(X, axis, -1)
    if not op.integer("largest", 1):
        # The least integer has no negative.
        keys = ~keys if is_integer(X.dtype) else -keys
    places = jnp.moveaxis(jax.lax.top_k(keys, count)[1], -1, axis).astype(np.int64)
    return jnp.take_along_axis(jnp.asarray(X), places, axis), places


lowering("TopK", rows=apart(_top_k, along(-1)))(_top_k)
