"""What a step is made of, by its name with the settings that it has by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from whileback.errors import ArgumentError, nearest

__all__ = ["from_table"]

Part = TypeVar("Part")


def from_table(kind: str, name: str, table: Mapping[str, Callable[..., Part]]) -> Part:
    """Return what a table has under the name; `kind` is the argument that gives it.

    Raises: ArgumentError for an unknown name, or anything else.
    """
    if not isinstance(name, str) or name not in table:
        hint = nearest(name if isinstance(name, str) else "", table)
        raise ArgumentError(f"{kind}={name!r} is unknown; {hint}")
    return table[name]()
