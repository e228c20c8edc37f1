"""Determinants."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.axes import apart
from whileback.engines.xla.operators.numbers import wide_type
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _det(op: Operator, X: Any) -> Any:
    """The determinant of each matrix."""
    return jnp.linalg.det(jnp.asarray(X).astype(wide_type(X.dtype))).astype(X.dtype)


lowering("Det", rows=apart(_det, lambda op, X: -2))(_det)
