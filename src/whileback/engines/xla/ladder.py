"""Runs a model where nothing can be run again: with room for more and more rows of its stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import jaxpr_as_fun

from whileback.errors import EngineError

__all__ = ["CHECKPOINTED", "ROOMS", "Attempt", "climb"]

# For how many rows there is room in one attempt after the other. Rows that do not count cost time,
# and each attempt some more to compile: 0.9 to 1.4 times what exactly as many rows take at 100,
# 1 000 and 10 000 trips of y ← tanh(y·w), and where 3 000 rows of n = 64 have room for 16 384, 2.7.
# A gradient keeps checkpoints for more trips, the square root of their number: 1.7 times at 20 000.
ROOMS = (128, 2048, 16384, 131072)
CHECKPOINTED = (512, 4096)


@dataclass(frozen=True)
class Attempt:
    """A program in which each stack has room for some rows, traced once.

    `run` takes arrays, and returns the outputs, whether the room was enough (None: there is no
    such stack), and for how many rows there should have been room. `reach` is the number of trips
    for which it probably is enough.
    """

    run: Callable[..., Any]
    types: tuple[ShapedArray, ...]
    room: int
    reach: int

    @cached_property
    def _traced(self) -> tuple[Any, Any]:
        return jax.make_jaxpr(self.run, return_shape=True)(*self.types)

    @property
    def outputs(self) -> Any:
        """What the outputs are, by shapes and types."""
        return self._traced[1][0]

    @property
    def is_certain(self) -> bool:
        """Tell whether the room is enough, whatever the arrays are."""
        return self._traced[1][1] is None

    def __call__(self, *arrays: jax.Array) -> Any:
        """Run the program."""
        program, types = self._traced
        results = jaxpr_as_fun(program)(*arrays)
        return jax.tree.unflatten(jax.tree.structure(types), results)


def climb(name: str, attempts: Sequence[Attempt], arrays: Sequence[jax.Array]) -> Any:
    """Return the outputs of the first attempt with room enough; each is compiled once.

    Where even the last one has too little, the run fails. Should somebody see its numbers
    nevertheless, none of them looks like a result.
    """
    first, last = attempts[0], attempts[-1]
    if first.is_certain:
        return first(*arrays)[0]
    reaches = jnp.array([attempt.reach for attempt in attempts])
    tries = [_uniform(attempt) for attempt in attempts]

    def step(state: Any) -> Any:
        outputs, ok, needed = jax.lax.switch(state[0], tries, *arrays)
        enough = jnp.minimum(jnp.sum(needed > reaches), len(attempts) - 1)
        return jnp.maximum(state[0] + 1, enough), ok, needed, outputs

    zeros = jax.tree.map(lambda output: jnp.zeros(output.shape, output.dtype), first.outputs)
    start = jnp.zeros((), jnp.int64), jnp.array(False), jnp.zeros((), jnp.int64), zeros
    _, ok, needed, outputs = jax.lax.while_loop(
        lambda state: ~state[1] & (state[0] < len(attempts)), step, start
    )
    if last.is_certain:
        return outputs
    return jax.lax.cond(ok, lambda: outputs, lambda: _refused(name, last.room, outputs, needed))


def _uniform(attempt: Attempt) -> Callable[..., Any]:
    """Return an attempt that says of its room, too, that it was enough where it always is."""

    def run(*arrays: jax.Array) -> Any:
        outputs, ok, needed = attempt(*arrays)
        return (outputs, jnp.array(True), jnp.int64(0)) if ok is None else (outputs, ok, needed)

    return run


def _refused(name: str, room: int, outputs: Any, needed: jax.Array) -> Any:
    """Fail when the program gets here."""

    def fail(rows: Any) -> Any:
        found = f"a loop stacks {rows} rows, and there is room for {room} at most"
        if rows <= room:
            found = "a slice in a loop is cut off at the end of its axis, which changes its shape"
        raise EngineError(
            f"In model {name!r}, traced by JAX, {found}. Call the model outside of jax.jit, "
            "jax.vmap and the like, where it is compiled for what the run turns out to be."
        )

    failed = jax.pure_callback(fail, ShapedArray((), jnp.bool_), needed)

    def spoiled(output: jax.Array) -> jax.Array:
        if jnp.issubdtype(output.dtype, jnp.floating):
            return jnp.where(failed, jnp.asarray(jnp.nan, output.dtype), output)
        return jnp.where(failed, jnp.zeros_like(output), output)

    return jax.tree.map(spoiled, outputs)
