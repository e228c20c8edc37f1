"""Stacks whose number of rows only the run knows: a buffer of fixed size, and a count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Array", "Rows", "shape_of"]

Array = np.ndarray | jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """The first `count` rows of `buffer`, along axis 0; what the others hold means nothing.

    `origin` is the fact that tells the count, if the loop that made the rows stands in no other.
    Without room for any row, the count is not known yet: who reads the rows has to ask for it.
    """

    buffer: jax.Array
    count: jax.Array
    origin: str | None = field(default=None, metadata={"static": True})

    @property
    def capacity(self) -> int:
        """The number of rows for which there is room."""
        return int(self.buffer.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the buffer."""
        return tuple(self.buffer.shape)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.buffer.dtype

    @property
    def ndim(self) -> int:
        """The rank."""
        return int(self.buffer.ndim)

    def like(self, buffer: jax.Array) -> Rows:
        """Return other rows of the same number."""
        return Rows(buffer, self.count, self.origin)

    def filled(self, value: Any) -> jax.Array:
        """Return the buffer with that value in all rows that do not count."""
        counts = jnp.arange(self.capacity) < self.count
        counts = counts.reshape(-1, *(1,) * (self.ndim - 1))
        return jnp.where(counts, self.buffer, jnp.asarray(value, self.buffer.dtype))


def shape_of(value: Array | Rows) -> tuple[int, ...]:
    """Return the shape of an array, or of the buffer of a stack."""
    return tuple(value.shape)
