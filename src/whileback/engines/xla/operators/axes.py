"""Operators that work along some axis, and treat the elements of the others each for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator, as_tuple
from whileback.engines.xla.registry import Function
from whileback.engines.xla.rows import Rows

__all__ = ["along", "apart", "from_front"]


def from_front(axis: Any, rank: int) -> int:
    """Return an axis counted from the front, be it counted from the end.

    Raises:
        ValueError: there is none.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"there is no axis {axis} of an array of rank {rank}")
    return int(axis) % rank


def along(default: int) -> Callable[..., int]:
    """Return how the axis is told: by the attribute `axis`."""
    return lambda op, *_: op.integer("axis", default)


def apart(function: Function, axis: Callable[..., int]) -> Function:
    """Return how the operator takes rows as its first operand: each for itself, unless along them.

    `axis` takes what the lowering takes.
    """

    def on_rows(op: Operator, X: Any, *others: Any) -> Any:
        others = tuple(exact(op.trace, other) for other in others)
        if not isinstance(X, Rows) or axis(op, X, *others) % X.ndim == 0:
            return function(op, exact(op.trace, X), *others)
        return tuple(map(X.like, as_tuple(function(op, X.buffer, *others))))

    return on_rows
