"""The table of rules: which operator has a gradient, which has none and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import onnx
import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.scopes import STANDARD_DOMAINS, stands_for

__all__ = ["Entry", "entries", "lookup", "not_differentiable", "rule"]

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Entry:
    """What is known of one operator: its rule, or the reason why its gradient is zero.

    `rounds` says that the operator rounds its result, and the rule is that of what it rounds;
    `narrow` that the rule knows what to do with whole numbers that have cotangents.
    """

    domain: str
    op_type: str
    rule: Rule | None = None
    reason: str = ""
    rounds: bool = False
    narrow: bool = False


# The domain of operators that an `Identity` can stand for.
MARKS = "whileback"
_ENTRIES: dict[tuple[str, str], Entry] = {}


def _split(identifier: str) -> tuple[str, str]:
    domain, _, op_type = identifier.rpartition("::")
    domain = "" if domain in STANDARD_DOMAINS else domain
    if not op_type or "::" in domain:
        raise ArgumentError(
            f"'{identifier}' names no operator; write 'Op', or 'my.domain::Op' for one of your own."
        )
    if not domain and not onnx.defs.has(op_type):
        known = [schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain]
        raise ArgumentError(
            f"ONNX has no operator '{op_type}'; {nearest(op_type, known)} One of your own has a "
            "domain: 'my.domain::Op'."
        )
    return domain, op_type


def _register(entry: Entry) -> None:
    key = (entry.domain, entry.op_type)
    if key in _ENTRIES:
        name = f"{entry.domain}::{entry.op_type}" if entry.domain else entry.op_type
        raise ArgumentError(
            f"Operator '{name}' has a rule already; an operator has exactly one. "
            "Give the new one another name or another domain."
        )
    _ENTRIES[key] = entry


def rule(*identifiers: str, rounds: bool = False, narrow: bool = False) -> Callable[[R], R]:
    """Register the decorated function as the gradient rule of one or more operators.

    A rule is called as `rule(op, node, *cotangents)`: `op` emits operators (`op.Mul(a, b)`),
    `node` is the forward node, and there is one cotangent for each output of the node, None where
    none flows. It returns one gradient for each input of the node, in order, None where no
    gradient flows; a rule for one input may return the value itself.

    Args:
        identifiers: "Op" for the default domain, "my.domain::Op" for any other.
        rounds: whether the operator rounds its result, and the rule is that of what it rounds. It
            is used only where the caller asks for `quantized="straight-through"`.
        narrow: whether the rule takes whole numbers whose cotangents are FLOAT; others are called
            for a copy of the node that computes with floats.

    Raises:
        ArgumentError: if the operator has a rule already, or ONNX has no such operator.

    >>> @rule("my.domain::Twice")
    ... def twice(op, node, dy):
    ...     '''y = 2·x, so dx = 2·dy.'''
    ...     return op.Mul(dy, 2.0)
    """

    def register(function: R) -> R:
        for identifier in identifiers:
            domain, op_type = _split(identifier)
            entry = Entry(domain, op_type, rule=function, rounds=rounds, narrow=narrow or rounds)
            _register(entry)
        return function

    return register


def not_differentiable(reason: str, *identifiers: str) -> None:
    """Register operators whose outputs do not depend smoothly on any input: no gradient flows."""
    for identifier in identifiers:
        _register(Entry(*_split(identifier), reason=reason))


def lookup(node: ir.Node) -> Entry | None:
    """Return what is known of the node's operator, or of what it stands for, or None."""
    marked = stands_for(node)
    if marked is not None:
        return _ENTRIES.get((MARKS, marked))
    domain = "" if node.domain in STANDARD_DOMAINS else node.domain
    return _ENTRIES.get((domain, node.op_type))


def entries() -> Sequence[Entry]:
    """Return all that is registered, by domain and name."""
    return [_ENTRIES[key] for key in sorted(_ENTRIES)]
