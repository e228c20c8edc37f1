"""A model as one operation of JAX's: it is traced, by the engine's own rules, as it is compiled.

Whatever JAX's own rules would do to the operations inside stays outside: their types do not
depend on whether the caller knows numbers of 64 bits, `jax.vmap` makes no select of a guarded
branch, and no sharding that is part of a type has to be handed through loops.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from whileback.engines.xla.ladder import Attempt, climb
from whileback.engines.xla.sharding import own_types, typed

__all__ = ["Axes", "Call", "bind"]

# Which axis of each array each `jax.vmap` around goes along, the innermost last.
Axes = tuple[tuple[int | None, ...], ...]


class Call(Hashable, Protocol):
    """What is called, and what is known of it; hashable, and equal to what does the same."""

    @property
    def name(self) -> str:
        """The model's name, for messages."""
        ...

    def attempts(self, axes: Axes, types: tuple[ShapedArray, ...]) -> list[Attempt]:
        """Return the programs to try, each one with more room than those before."""
        ...

    def goes_together(self, batched: Sequence[bool]) -> bool:
        """Tell whether all elements along an axis of these arrays take the same way."""
        ...


# JAX declares no types for primitives.
_PRIMITIVE: Any = Primitive("whileback")
_PRIMITIVE.multiple_results = True


def bind(call: Call, arrays: Sequence[jax.Array]) -> Any:
    """Return the outputs of a call."""
    outputs = _PRIMITIVE.bind(*arrays, call=call, axes=())
    types = _attempts(call, (), tuple(map(_plain, arrays)))[0].outputs
    return jax.tree.unflatten(jax.tree.structure(types), outputs)


@lru_cache(maxsize=256)
def _attempts(call: Call, axes: Axes, types: tuple[ShapedArray, ...]) -> Sequence[Attempt]:
    """Return the programs to try, which are traced only once."""
    attempts = call.attempts(axes, types)
    with own_types():
        _ = attempts[0].outputs
    return attempts


def _plain(array: Any) -> ShapedArray:
    return ShapedArray(array.shape, array.dtype)


def _types(*types: Any, call: Call, axes: Axes) -> list[ShapedArray]:
    outputs = _attempts(call, axes, tuple(map(_plain, types)))[0].outputs
    return [typed(each, types) for each in jax.tree.leaves(outputs)]


_PRIMITIVE.def_abstract_eval(_types)


def _lower(context: Any, *arrays: Any, call: Call, axes: Axes) -> Any:
    def run(*arrays: jax.Array) -> list[jax.Array]:
        attempts = _attempts(call, axes, tuple(map(_plain, arrays)))
        return jax.tree.leaves(climb(call.name, attempts, arrays))

    types = list(map(_plain, context.avals_in))
    with own_types():
        return mlir.lower_fun(run)(context.replace(avals_in=types), *arrays)


mlir.register_lowering(_PRIMITIVE, _lower)


@partial(jax.jit, static_argnames=("call", "axes"))
def _compiled(*arrays: jax.Array, call: Call, axes: Axes) -> Any:
    return _PRIMITIVE.bind(*arrays, call=call, axes=axes)


_PRIMITIVE.def_impl(_compiled)


def _batched(
    arrays: Sequence[Any], dims: Sequence[int | None], *, call: Call, axes: Axes
) -> tuple[list[Any], list[int]]:
    """Run a call on all elements of a batch: at once, or one by one if their ways may part."""
    if call.goes_together([dim is not None for dim in dims]):
        outputs = _PRIMITIVE.bind(*arrays, call=call, axes=(tuple(dims), *axes))
    else:
        outputs = _one_by_one(*arrays, call=call, axes=axes, dims=tuple(dims))
    return outputs, [0] * len(outputs)


batching.primitive_batchers[_PRIMITIVE] = _batched


@partial(jax.jit, static_argnames=("call", "axes", "dims"))
def _one_by_one(*arrays: jax.Array, call: Call, axes: Axes, dims: tuple[int | None, ...]) -> Any:
    batched = {
        index: jnp.moveaxis(arrays[index], dim, 0)
        for index, dim in enumerate(dims)
        if dim is not None
    }

    def run(elements: dict[int, jax.Array]) -> Any:
        mixed = [elements.get(index, array) for index, array in enumerate(arrays)]
        return _PRIMITIVE.bind(*mixed, call=call, axes=axes)

    return jax.lax.map(run, batched)
