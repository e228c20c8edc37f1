"""Sums and products of all elements up to each."""

from __future__ import annotations

from typing import Any

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.axes import from_front
from whileback.engines.xla.operators.numbers import wide_type
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def _register(op_type: str, name: str, neutral: int) -> None:
    """Register the function of that name in NumPy and JAX."""

    def accumulate(op: Operator, X: Any, axis: int) -> Any:
        xp, is_reverse = op.xp, bool(op.integer("reverse", 0))
        Y = xp.flip(X, axis) if is_reverse else X
        Y = getattr(xp, name)(Y, axis, dtype=wide_type(X.dtype)).astype(X.dtype)
        if op.integer("exclusive", 0):
            others = (slice(None),) * axis
            first = xp.full_like(Y[*others, :1], neutral)
            Y = xp.concatenate([first, Y[*others, :-1]], axis)
        return xp.flip(Y, axis) if is_reverse else Y

    def of_rows(op: Operator, X: Rows, axis: Any) -> Any:
        along = from_front(op.static(axis, "axis").item(), X.ndim)
        return X.like(accumulate(op, X.buffer if along else X.filled(neutral), along))

    @lowering(op_type, folds=True, rows=of_rows)
    def of_array(op: Operator, X: Any, axis: Any) -> Any:
        return accumulate(op, X, from_front(op.static(axis, "axis").item(), X.ndim))


_register("CumSum", "cumsum", 0)
_register("CumProd", "cumprod", 1)
