"""Operators that compute each element for itself."""

from __future__ import annotations

from typing import Any

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("Add", folds=True, rows="each")
def add(op: Operator, A: Any, B: Any) -> Any:
    """C = A + B."""
    return op.xp.add(A, B)


@lowering("Sub", folds=True, rows="each")
def sub(op: Operator, A: Any, B: Any) -> Any:
    """C = A - B."""
    return op.xp.subtract(A, B)


@lowering("Mul", folds=True, rows="each")
def mul(op: Operator, A: Any, B: Any) -> Any:
    """C = A·B."""
    return op.xp.multiply(A, B)


@lowering("Tanh", rows="each")
def tanh(op: Operator, X: Any) -> Any:
    """Y = tanh X."""
    return op.xp.tanh(X)


@lowering("Identity", folds=True, rows="each")
def identity(op: Operator, X: Any) -> Any:
    """Y = X."""
    return X


@lowering("Greater", folds=True, rows="each")
def greater(op: Operator, A: Any, B: Any) -> Any:
    """C = A > B."""
    return op.xp.greater(A, B)


@lowering("Less", folds=True, rows="each")
def less(op: Operator, A: Any, B: Any) -> Any:
    """C = A < B."""
    return op.xp.less(A, B)
