"""What is carried through loops and branches: arrays, of types that stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.facts import NotStaticError
from whileback.engines.xla.rows import Rows

__all__ = ["as_arrays", "rooms", "same_types", "with_rooms"]


def as_arrays(values: Sequence[Any]) -> list[Any]:
    """Return the values as JAX carries them.

    Raises:
        NotStaticError: one is a sequence, or an optional, of which XLA knows nothing.
    """
    for value in values:
        if not isinstance(value, (np.ndarray, jax.Array, Rows)):
            raise NotStaticError("a sequence")
    return [jnp.asarray(value) if isinstance(value, np.ndarray) else value for value in values]


def same_types(values: Sequence[Any], others: Sequence[Any]) -> bool:
    """Tell whether values have the same structures, shapes and types."""

    def types(items: Sequence[Any]) -> Any:
        leaves, structure = jax.tree.flatten(items)
        return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]

    return bool(types(values) == types(others))


def rooms(values: Sequence[Any], others: Sequence[Any]) -> list[int | None]:
    """Return how many rows there may be, if either of two results is a stack of some rows."""
    return [
        max(value.shape[0], other.shape[0])
        if Rows in (type(value), type(other)) and min(len(value.shape), len(other.shape)) > 0
        else None
        for value, other in zip(values, others, strict=True)
    ]


def with_rooms(values: Sequence[Any], sizes: Sequence[int | None]) -> list[Any]:
    """Return stacks with room for so many rows; where it says None, the values as they are."""
    return [
        value if size is None else _with_room(value, size)
        for value, size in zip(values, sizes, strict=True)
    ]


def _with_room(value: Any, size: int) -> Rows:
    rows = value if isinstance(value, Rows) else Rows(value, jnp.int64(value.shape[0]))
    more = [(0, size - rows.capacity), *[(0, 0)] * (rows.ndim - 1)]
    return Rows(jnp.pad(rows.buffer, more), rows.count)
