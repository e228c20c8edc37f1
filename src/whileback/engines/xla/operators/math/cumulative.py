"""Sums and products of all elements up to each."""

from __future__ import annotations

from typing import Any

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.numbers import wide_type
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def _register(op_type: str, name: str, neutral: int) -> None:
    """Register the function of that name in NumPy and JAX."""

    def accumulate(op: Operator, X: Any, axis: int) -> Any:
        step = -1 if op.integer("reverse", 0) else 1
        Y = op.xp.moveaxis(X, axis, 0)[::step]
        Y = getattr(op.xp, name)(Y, 0, dtype=wide_type(X.dtype)).astype(X.dtype)
        if op.integer("exclusive", 0):
            Y = op.xp.concatenate([op.xp.full_like(Y[:1], neutral), Y[:-1]])
        return op.xp.moveaxis(Y[::step], 0, axis)

    def of_rows(op: Operator, X: Rows, axis: Any) -> Any:
        along = int(op.static(axis, "axis").item()) % X.ndim
        return X.like(accumulate(op, X.buffer if along else X.filled(neutral), along))

    @lowering(op_type, folds=True, rows=of_rows)
    def of_array(op: Operator, X: Any, axis: Any) -> Any:
        return accumulate(op, X, int(op.static(axis, "axis").item()))


_register("CumSum", "cumsum", 0)
_register("CumProd", "cumprod", 1)
