"""What is known of every operator: its rule, its expansion, or why there is neither."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnx.defs

from whileback.errors import ArgumentError, nearest
from whileback.gradient import rules as _registered  # noqa: F401
from whileback.gradient.gradient_nodes import GRADIENT, expand_gradients
from whileback.gradient.registry import Entry, entries
from whileback.graph.definitions.table import definitions
from whileback.graph.optionals import unwrap_optionals
from whileback.graph.scopes import STANDARD_DOMAINS

__all__ = ["Coverage", "Status", "catalogue", "find"]

Key = tuple[str, str]
Status = Literal["rule", "expansion", "not differentiable", "none yet"]
_PACKAGE = Path(__file__).parents[2]
# What takes the places of these operators before a model is differentiated.
_REPLACED: Mapping[Key, Callable[..., None]] = {
    GRADIENT: expand_gradients,
    ("", "Optional"): unwrap_optionals,
    ("", "OptionalGetElement"): unwrap_optionals,
}


@dataclass(frozen=True)
class Coverage:
    """What is known of one operator.

    `where` is the file and line of the rule, `text` its docstring, the reason why the operator is
    not differentiable, or what else there is to say.
    """

    operator: str
    status: Status
    where: str
    text: str


def catalogue() -> Sequence[Coverage]:
    """Return every operator of ai.onnx's newest opset by name, then those of other domains."""
    rules = {(entry.domain, entry.op_type): entry for entry in entries()}
    schemas = {
        ("" if schema.domain in STANDARD_DOMAINS else schema.domain, schema.name): schema
        for schema in onnx.defs.get_all_schemas()
        if not schema.deprecated
    }
    return [
        _coverage(f"{domain}::{name}" if domain else name, (domain, name), rules, schemas)
        for domain, name in sorted({*rules, *definitions(), *schemas})
    ]


def find(operator: str) -> Coverage:
    """Return what is known of an operator called `Op`, `ai.onnx::Op` or `my.domain::Op`.

    Raises:
        ArgumentError: there is no such operator.
    """
    known = {coverage.operator: coverage for coverage in catalogue()}
    name = operator.removeprefix("ai.onnx::")
    if name not in known:
        raise ArgumentError(f"There is no operator {operator!r}; {nearest(name, known)}")
    return known[name]


def _coverage(
    operator: str, key: Key, rules: Mapping[Key, Entry], schemas: Mapping[Key, onnx.defs.OpSchema]
) -> Coverage:
    if key in rules:
        return _registered_coverage(operator, rules[key])
    if key in definitions() or key in _REPLACED:
        define = definitions().get(key) or _REPLACED[key]
        return Coverage(operator, "expansion", _location(define), inspect.getdoc(define) or "")
    # The stubs of onnx lack both.
    schema: Any = schemas[key]
    if schema.has_function or schema.has_context_dependent_function:
        text = f"The function that ONNX defines {schema.name} by is differentiated."
        return Coverage(operator, "expansion", "", text)
    text = f'Nobody has written a rule yet. One of your own: @whileback.rule("{operator}")'
    return Coverage(operator, "none yet", "", text)


def _registered_coverage(operator: str, entry: Entry) -> Coverage:
    if entry.rule is None:
        return Coverage(operator, "not differentiable", "", entry.reason)
    function = inspect.unwrap(entry.rule)
    text = inspect.getdoc(function) or ""
    return Coverage(operator, "rule", _location(function), text)


def _location(function: object) -> str:
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    file = Path(code.co_filename)
    shown = file.relative_to(_PACKAGE) if file.is_relative_to(_PACKAGE) else file
    return f"{shown.as_posix()}:{code.co_firstlineno}"
