"""Operators that choose elements by conditions."""

from __future__ import annotations

from typing import Any

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("Where", folds=True, rows="each")
def where(op: Operator, condition: Any, X: Any, Y: Any) -> Any:
    """X where the condition holds, and Y elsewhere."""
    return op.xp.where(condition, X, Y)
