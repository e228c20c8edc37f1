"""What models of `ai.onnx.ml` do to their scores at last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["transformed"]


def transformed(scores: Any, name: str) -> Any:
    """Return the scores, or shares of 1 that are made of them."""
    if name == "SOFTMAX":
        return jax.nn.softmax(scores, -1)
    if name == "SOFTMAX_ZERO":
        shares = jnp.where(scores == 0, 0, jnp.exp(scores - jnp.max(scores, -1, keepdims=True)))
        total = jnp.sum(shares, -1, keepdims=True)
        return shares / jnp.where(total == 0, 1, total)
    if name == "LOGISTIC":
        return jax.nn.sigmoid(scores)
    if name == "PROBIT":
        return jnp.sqrt(jnp.array(2, scores.dtype)) * jax.scipy.special.erfinv(2 * scores - 1)
    return scores
