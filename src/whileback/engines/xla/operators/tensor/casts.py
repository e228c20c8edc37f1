"""Other types for the same elements."""

from __future__ import annotations

from typing import Any

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("Cast", folds=True, rows="each")
def cast(op: Operator, X: Any) -> Any:
    """X in the type `to`."""
    return X.astype(op.dtype())
