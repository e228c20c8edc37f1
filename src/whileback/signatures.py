"""Arguments held against the types that functions are annotated with."""

from __future__ import annotations

import collections.abc
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from whileback.errors import ArgumentError

__all__ = ["is_of", "kind_said", "require_types"]

_NUMBERS = {int: Integral, float: Real}


def require_types(
    function: Callable[..., Any], arguments: Mapping[str, Any], but: Sequence[str] = ()
) -> None:
    """Refuse arguments that are not of the types of a function's parameters, or a class's fields.

    To be called first, with `locals()` or `vars(self)`.

    Args:
        function: a function or class with annotations.
        arguments: by name.
        but: parameters that the function looks at itself.

    Raises: ArgumentError for a wrong one.
    """
    for name, kind in _hints(function).items():
        if name in arguments and name not in but and not is_of(arguments[name], kind):
            shown = reprlib.repr(arguments[name])
            raise ArgumentError(f"{name}={shown} is not {kind_said(kind)}.")


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function)


def is_of(value: Any, kind: Any) -> bool:
    """Tell whether a value is of an annotated type, elements of lists and mappings included."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return True
    if origin in (UnionType, Union):
        return any(is_of(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str)  # Which one it is, the function itself looks at.
    if origin is tuple:
        fits = isinstance(value, list | tuple) and len(value) == len(parts)
        return fits and all(map(is_of, value, parts))
    if origin is collections.abc.Mapping:
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return isinstance(value, Mapping) and all(
            is_of(each, part) for pair in pairs for each, part in zip(pair, parts, strict=True)
        )
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        return not isinstance(value, list | tuple) or all(is_of(each, parts[0]) for each in value)
    return _is_instance(value, origin or kind)


def _is_instance(value: Any, kind: Any) -> bool:
    if kind in _NUMBERS:
        return not isinstance(value, bool) and isinstance(value, _NUMBERS[kind])
    if getattr(kind, "__name__", "") == "ndarray":
        return hasattr(value, "__array__")
    return isinstance(value, kind)


def kind_said(kind: Any, written: bool = False) -> str:
    """Return an annotated type in words; if `written`, as it can be given on a command line."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        said = dict.fromkeys(kind_said(part, written) for part in parts if part is not NoneType)
        return " or ".join(said)
    if origin is tuple:
        return f"a list of {len(parts)} numbers, such as [{', '.join(['0.5'] * len(parts))}]"
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        return f"a list of which each is {kind_said(parts[0])}"
    if origin is collections.abc.Mapping:
        return f"a mapping from {kind_said(parts[0])} to {kind_said(parts[1])}"
    if origin is collections.abc.Callable:
        return "a function"
    kinds = {float: "a number", int: "a whole number", bool: "true or false", Any: "anything"}
    if kind in kinds:
        return kinds[kind]
    if kind is str or origin is Literal or written:
        return "a name"
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
