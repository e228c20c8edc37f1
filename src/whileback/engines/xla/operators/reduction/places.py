"""Where the largest or smallest elements are."""

from __future__ import annotations

from typing import Any

import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.numbers import least, most
from whileback.engines.xla.registry import Function, lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def _register(op_type: str, name: str, neutral: Function) -> None:
    """Register the function of that name in NumPy and JAX."""

    def place(op: Operator, data: Any, axis: int) -> Any:
        find, keeps = getattr(op.xp, name), bool(op.integer("keepdims", 1))
        if op.integer("select_last_index", 0):
            last = data.shape[axis] - 1
            return (last - find(op.xp.flip(data, axis), axis, keepdims=keeps)).astype(np.int64)
        return find(data, axis, keepdims=keeps).astype(np.int64)

    def of_rows(op: Operator, data: Rows) -> Any:
        axis = op.integer("axis", 0) % data.ndim
        if axis:
            return data.like(place(op, data.buffer, axis))
        if op.integer("select_last_index", 0):
            return place(op, exact(op.trace, data), axis)
        return place(op, data.filled(neutral(data.dtype)), axis)

    @lowering(op_type, folds=True, rows=of_rows)
    def of_array(op: Operator, data: Any) -> Any:
        return place(op, data, op.integer("axis", 0))


_register("ArgMax", "argmax", least)
_register("ArgMin", "argmin", most)
