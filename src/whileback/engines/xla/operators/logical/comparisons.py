"""Comparisons of elements, and what is made of their results."""

from __future__ import annotations

from typing import Any

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import Function, lowering

__all__: list[str] = []

# Functions that NumPy and JAX have under the same name.
_SAME = {
    "And": "logical_and",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}


def _same(name: str) -> Function:
    """C = f(A, B), where f has that name in NumPy and JAX."""

    def function(op: Operator, A: Any, B: Any) -> Any:
        return getattr(op.xp, name)(A, B)

    return function


for _op_type, _name in _SAME.items():
    lowering(_op_type, folds=True, rows="each")(_same(_name))


@lowering("Not", folds=True, rows="each")
def not_(op: Operator, X: Any) -> Any:
    """Y = not X."""
    return op.xp.logical_not(X)


@lowering("BitwiseNot", folds=True, rows="each")
def bitwise_not(op: Operator, X: Any) -> Any:
    """Y has the other bits of X."""
    return op.xp.bitwise_not(X)


@lowering("BitShift", folds=True, rows="each")
def bit_shift(op: Operator, X: Any, Y: Any) -> Any:
    """Z = X with its bits moved by Y places."""
    left = op.text("direction") == "LEFT"
    return op.xp.left_shift(X, Y) if left else op.xp.right_shift(X, Y)
