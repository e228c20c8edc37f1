"""Reductions: what the elements along some axes give together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.axes import from_front
from whileback.engines.xla.operators.math.arithmetic import quotient
from whileback.engines.xla.operators.numbers import least, most, wide_type
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []

Reduce = Callable[[Operator, Any, tuple[int, ...]], Any]


def _wide_sum(op: Operator, data: Any, axes: tuple[int, ...]) -> Any:
    return op.xp.sum(data, axes, dtype=wide_type(data.dtype), keepdims=_keeps(op))


def _sum(op: Operator, data: Any, axes: tuple[int, ...]) -> Any:
    return _wide_sum(op, data, axes).astype(data.dtype)


def _product(op: Operator, data: Any, axes: tuple[int, ...]) -> Any:
    wide = wide_type(data.dtype)
    return op.xp.prod(data, axes, dtype=wide, keepdims=_keeps(op)).astype(data.dtype)


def _maximum(op: Operator, data: Any, axes: tuple[int, ...]) -> Any:
    return op.xp.max(data, axes, keepdims=_keeps(op), initial=least(data.dtype))


def _minimum(op: Operator, data: Any, axes: tuple[int, ...]) -> Any:
    return op.xp.min(data, axes, keepdims=_keeps(op), initial=most(data.dtype))


def _log_sum_exp(op: Operator, data: Any, axes: tuple[int, ...]) -> Any:
    wide = data.astype(wide_type(data.dtype))
    result = jax.nn.logsumexp(wide, axes, keepdims=_keeps(op))
    return result.astype(data.dtype)


def _keeps(op: Operator) -> bool:
    return bool(op.integer("keepdims", 1))


def _axes(op: Operator, data: Any, axes: Any) -> tuple[int, ...]:
    """Return the axes to reduce, counted from the front: all, if there are none."""
    given = () if axes is None else op.static(axes, "axes")
    named = tuple(from_front(axis, data.ndim) for axis in given)
    return named if named or op.integer("noop_with_empty_axes", 0) else tuple(range(data.ndim))


def _register(op_type: str, reduce: Reduce, neutral: Callable[[Any], Any]) -> None:
    """Register a reduction; elements that are neutral do not change what it gives."""

    def of_rows(op: Operator, data: Rows, axes: Any = None) -> Any:
        over = _axes(op, data, axes)
        if 0 in over:
            return reduce(op, data.filled(neutral(data.dtype)), over)
        return data.like(reduce(op, data.buffer, over))

    @lowering(op_type, folds=True, rows=of_rows)
    def of_array(op: Operator, data: Any, axes: Any = None) -> Any:
        return reduce(op, data, _axes(op, data, axes))


_register("ReduceSum", _sum, lambda _: 0)
_register("ReduceProd", _product, lambda _: 1)
_register("ReduceMax", _maximum, least)
_register("ReduceMin", _minimum, most)
_register("ReduceLogSumExp", _log_sum_exp, least)


def mean_of_rows(op: Operator, data: Rows, axes: Any = None) -> Any:
    """Divide by the number of rows that count."""
    over = _axes(op, data, axes)
    if 0 in over:
        return _mean(op, data.filled(0), over, data.count)
    return data.like(_mean(op, data.buffer, over))


@lowering("ReduceMean", folds=True, rows=mean_of_rows)
def mean(op: Operator, data: Any, axes: Any = None) -> Any:
    """The sum of the elements, divided by how many they are."""
    return _mean(op, data, _axes(op, data, axes))


def _mean(op: Operator, data: Any, axes: tuple[int, ...], rows: Any = None) -> Any:
    """Divide the sum by the number of elements, of which axis 0 may have only some."""
    sizes = data.shape if rows is None else (1, *data.shape[1:])
    count = np.array(math.prod(sizes[axis] for axis in axes)) * (1 if rows is None else rows)
    total = _wide_sum(op, data, axes)
    return quotient(op.xp, total, count.astype(total.dtype)).astype(data.dtype)
