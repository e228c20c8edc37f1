"""Other arguments for a model, beside those that are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["beside", "is_float", "size_of"]

_FLOATS = frozenset(np.dtype(each.numpy()) for each in ir.DataType if each.is_floating_point())


def is_float(value: Any) -> bool:
    """Tell whether a value is an array of floats, be they as small as they may."""
    return isinstance(value, np.ndarray) and value.dtype in _FLOATS


def size_of(array: np.ndarray) -> float:
    """Return the size of an array's finite elements, or 1 where there are none but zeros."""
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return float(np.sqrt(np.mean(finite**2))) if finite.any() else 1.0


def beside(value: Any, rng: np.random.Generator, apart: bool, same_sizes: bool) -> Any:
    """Return an array of floats near the given one, with a number for what is none.

    Args:
        value: an argument; what is no array of floats is returned as it is.
        rng: makes the numbers.
        apart: whether none may be close to another, so that small steps change no order.
        same_sizes: whether what says sizes should say the same ones, as far as it can be known:
            ones stay, which as scales leave an axis as it is, and others only grow, since sizes
            are mostly rounded down.
    """
    if not is_float(value):
        return value
    wide = value.astype(np.float64)
    finite = np.isfinite(wide)
    steps = np.where(finite, np.maximum(np.abs(wide), size_of(value)) / 8, 1.0)
    moves = rng.uniform(-1, 1, wide.shape)
    if same_sizes:
        moves = np.where(wide == 1, 0.0, np.copysign(moves, wide))
    near = np.where(finite, wide, 0.0) + steps * moves
    if apart and near.size:
        places = np.linspace(near.min(), near.max(), near.size)
        near = places[np.argsort(np.argsort(near, axis=None))].reshape(near.shape)
    return near.astype(value.dtype)
