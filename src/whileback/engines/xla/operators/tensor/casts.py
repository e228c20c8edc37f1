"""Other types for the same elements, and what kinds of numbers they are."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.numbers import is_integer
from whileback.engines.xla.registry import lowering

__all__ = ["converted"]

_FLOAT8 = {
    np.dtype(dtype)
    for dtype in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
}
_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)


@lowering("Cast", folds=True, rows="each")
def cast(op: Operator, X: Any) -> Any:
    """X in the type `to`."""
    return _cast_to(op, X, op.dtype())


@lowering("CastLike", folds=True)
def cast_like(op: Operator, X: Any, target_type: Any) -> Any:
    """X in the type of another operand."""
    return _cast_to(op, X, target_type.dtype)


def _cast_to(op: Operator, X: Any, dtype: Any) -> Any:
    saturates = bool(op.integer("saturate", 1))
    if dtype == _POWERS != X.dtype:
        return _powers(op, X, str(op.text("round_mode", "up")), saturates)
    return converted(op.xp, X, dtype, saturates)


def converted(xp: Any, X: Any, dtype: Any, saturates: bool) -> Any:
    """Return X in another type, where too large numbers may become the largest of it."""
    if dtype in _FLOAT8 and saturates:
        is_real = jnp.issubdtype(X.dtype, jnp.floating) and X.dtype.itemsize > 1
        real = X if is_real else X.astype(np.float32)
        largest = np.array(jnp.finfo(dtype).max, real.dtype)  # type: ignore[no-untyped-call]
        X = xp.clip(real, -largest, largest)
    if is_integer(dtype) and dtype.itemsize < 4:
        # Of a float that is too large, the lower bits stay, as they do of an integer.
        X = X.astype(np.int32)
    return X.astype(dtype)


def _powers(op: Operator, X: Any, round_mode: str, saturates: bool) -> Any:
    """Return powers of two as numbers that have nothing but their exponents."""
    mantissa, exponent = op.xp.frexp(X.astype(np.float64))
    # X is mantissa·2^exponent, the mantissa at least 1/2.
    above = {"up": mantissa > 0.5, "down": mantissa < 0, "nearest": mantissa >= 0.75}[round_mode]
    power = op.xp.where(X == 0, -128, exponent - 1 + above)
    power = op.xp.where(op.xp.isinf(X), 128, power)
    is_number = ~op.xp.isnan(X)
    if not saturates:
        is_number &= abs(power) <= 127
    bits = op.xp.where(is_number, op.xp.clip(power, -127, 127) + 127, 255)
    return bits.astype(np.uint8).view(_POWERS)


@lowering("BitCast", folds=True, rows="each")
def bit_cast(op: Operator, X: Any) -> Any:
    """What the bits of X mean in another type."""
    return X.view(op.dtype())


@lowering("IsNaN", folds=True, rows="each")
def is_nan(op: Operator, X: Any) -> Any:
    """Whether an element is not a number."""
    return op.xp.isnan(X)


@lowering("IsInf", folds=True, rows="each")
def is_inf(op: Operator, X: Any) -> Any:
    """Whether an element is infinite, of the signs that are looked for."""
    found = op.xp.isinf(X)
    if not op.integer("detect_positive", 1):
        found &= X < 0
    if not op.integer("detect_negative", 1):
        found &= X > 0
    return found
