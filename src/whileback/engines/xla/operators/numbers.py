"""What there is to know of types of numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

__all__ = ["is_integer", "least", "most", "wide_type"]


def is_integer(dtype: Any) -> bool:
    """Tell whether the type is one of integers, however few bits they have."""
    return bool(jnp.issubdtype(dtype, jnp.integer))


def wide_type(dtype: Any) -> Any:
    """Return the type to add up in: at least float32."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and np.dtype(dtype).itemsize < 4
    return np.dtype(np.float32) if narrow else dtype


def least(dtype: Any) -> Any:
    """Return what is not larger than anything."""
    if jnp.issubdtype(dtype, jnp.bool_):
        return False
    return _integers(dtype).min if is_integer(dtype) else -np.inf


def most(dtype: Any) -> Any:
    """Return what is not smaller than anything."""
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return _integers(dtype).max if is_integer(dtype) else np.inf


def _integers(dtype: Any) -> Any:
    return jnp.iinfo(dtype)  # type: ignore[no-untyped-call]
