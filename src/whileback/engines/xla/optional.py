"""What an optional without an element is while a program is compiled."""

from __future__ import annotations

from typing import Final

import jax

__all__ = ["ABSENT", "Absent"]


@jax.tree_util.register_static
class Absent:
    """An optional without an element, of which JAX needs to carry nothing."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Absent)

    def __hash__(self) -> int:
        return hash(Absent)


ABSENT: Final = Absent()
