"""The table of lowerings: how each operator is said in JAX."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

__all__ = ["Lowering", "lowering", "lowerings"]

Function = Callable[..., Any]


@dataclass(frozen=True)
class Lowering:
    """How one operator is said in JAX.

    `function` takes an `Operator` and the operands, and gives the result, or a tuple of them.
    With `folds`, it computes with `op.xp`, so that what is known while compiling stays known.
    With `rows` "each", it treats the rows of its operands each for itself, so that a stack of
    which only some rows count can be handed in as it is; a function takes such stacks as `Rows`.
    """

    function: Function
    folds: bool
    rows: Literal["each"] | Function | None


_TABLE: dict[tuple[str, str], Lowering] = {}


def lowering(
    op_type: str,
    *,
    domain: str = "",
    folds: bool = False,
    rows: Literal["each"] | Function | None = None,
) -> Callable[[Function], Function]:
    """Register how an operator is said in JAX; see `Lowering`."""

    def register(function: Function) -> Function:
        key = domain, op_type
        if key in _TABLE:
            raise ValueError(f"{op_type!r} of domain {domain!r} has two lowerings.")
        _TABLE[key] = Lowering(function, folds, rows)
        return function

    return register


@cache
def lowerings() -> Mapping[tuple[str, str], Lowering]:
    """Return all lowerings, by domain and operator."""
    from whileback.engines.xla import operators

    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        importlib.import_module(module.name)
    return _TABLE
