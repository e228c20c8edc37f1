"""What is carried through loops and branches: arrays, of types that stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from whileback.engines.xla.facts import NotStaticError
from whileback.engines.xla.rows import Rows

__all__ = ["Once", "as_arrays", "fitted", "joint_type", "same_types"]


class Once:
    """A part of a program, traced once: in nests, what is traced twice is traced 2ⁿ times."""

    def __init__(self, run: Callable[..., Any], *arguments: Any) -> None:
        self.program, self.types = jax.make_jaxpr(run, return_shape=True)(*arguments)

    def __call__(self, *arguments: Any) -> Any:
        """Run the part here, on arguments of the types that it was traced with."""
        results = jaxpr_as_fun(self.program)(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(self.types), results)


def as_arrays(values: Sequence[Any]) -> list[Any]:
    """Return the values as JAX carries them.

    Raises:
        NotStaticError: one is a sequence, or an optional, of which XLA knows nothing.
    """
    for value in values:
        if not isinstance(value, (np.ndarray, jax.Array, Rows)):
            raise NotStaticError("a sequence")
    return [jnp.asarray(value) if isinstance(value, np.ndarray) else value for value in values]


def same_types(values: Sequence[Any], others: Sequence[Any]) -> bool:
    """Tell whether values have the same structures, shapes and types."""

    def types(items: Sequence[Any]) -> Any:
        leaves, structure = jax.tree.flatten(items)
        return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]

    return bool(types(values) == types(others))


def joint_type(value: Any, other: Any) -> Any:
    """Return the type of what is one of two results: a stack has room for the rows of both."""
    if Rows not in (type(value), type(other)) or len(value.shape) != len(other.shape):
        return value
    count: Any = jax.ShapeDtypeStruct((), jnp.int64)  # type: ignore[no-untyped-call]
    longer = value if value.shape[:1] >= other.shape[:1] else other
    return Rows(longer.buffer if isinstance(longer, Rows) else longer, count)


def fitted(value: Any, joint: Any) -> Any:
    """Return a result in a joint type."""
    if not isinstance(joint, Rows):
        return value
    rows = value if isinstance(value, Rows) else Rows(value, jnp.int64(value.shape[0]))
    more = [(0, joint.capacity - rows.capacity), *[(0, 0)] * (rows.ndim - 1)]
    return Rows(jnp.pad(rows.buffer, more), rows.count)
