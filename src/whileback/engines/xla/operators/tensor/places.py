"""Places along axes, as ONNX counts them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.errors import EngineError

__all__ = ["checked"]


def checked(op: Operator, indices: Any, size: Any) -> Any:
    """Return the places. Those outside of axes of that size, which only a run knows, become `size`.

    JAX cuts places down to 32 bits, which would bring some of them back inside.

    Raises:
        EngineError: one is known to lie outside.
    """
    if isinstance(indices, np.ndarray):
        outside = (indices < -size) | (indices >= size)
        if outside.any():
            first = np.argwhere(outside)[0]
            limit = np.broadcast_to(size, indices.shape)[tuple(first)]
            raise EngineError(
                f"{op.node.op_type} {op.node.name!r} asks for place {indices[tuple(first)]} of an "
                f"axis that has {limit}. Let its indices lie between {-limit} and {limit - 1}."
            )
        return indices
    if indices.dtype.itemsize <= np.dtype(np.int32).itemsize:
        return indices
    outside = (indices < -size) | (indices >= size)
    return jnp.where(outside, jnp.asarray(size, indices.dtype), indices)
