"""The tables of lowerings: how each operator is said in JAX."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

__all__ = ["Lowering", "control", "controls", "lowering", "lowerings"]

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
_CONTROLS: dict[str, Function] = {}


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


def control(op_type: str) -> Callable[[Function], Function]:
    """Register how a node with graphs of its own is said in JAX, by its scope, node and trace."""

    def register(function: Function) -> Function:
        _CONTROLS[op_type] = function
        return function

    return register


@cache
def lowerings() -> Mapping[tuple[str, str], Lowering]:
    """Return all lowerings, by domain and operator."""
    _load("whileback.engines.xla.operators")
    return _TABLE


@cache
def controls() -> Mapping[str, Function]:
    """Return all lowerings of nodes with graphs of their own, by operator."""
    _load("whileback.engines.xla.control")
    return _CONTROLS


def _load(package: str) -> None:
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, f"{package}."):
        importlib.import_module(module.name)
