"""Dropout, which does something only while training."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator, is_static
from whileback.engines.xla.operators.generator.random import uniform
from whileback.engines.xla.registry import lowering

__all__: list[str] = []

_RATIO = np.array(0.5, np.float32)


@lowering("Dropout", rows="each")
def dropout(op: Operator, data: Any, ratio: Any = None, training_mode: Any = None) -> Any:
    """Some elements are 0, and the others larger for that; all stay where nothing is trained."""
    data = jnp.asarray(data)
    trains = np.array(False) if training_mode is None else training_mode
    if is_static(trains) and not trains.item():
        return data, jnp.ones(data.shape, bool)
    ratio = _RATIO if ratio is None else ratio
    dropped = jnp.where(trains, ratio, 0).astype(ratio.dtype)
    mask = uniform(op, data.shape, np.float32) >= dropped
    return jnp.where(mask, data / (1 - dropped).astype(data.dtype), 0).astype(data.dtype), mask
