"""Runs models on XLA, by JAX: loops at the speed of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from whileback.engines.base import Source
from whileback.engines.xla.ports import as_given
from whileback.engines.xla.transformable import Transformable

__all__ = ["ARRAYS", "load"]

ARRAYS: tuple[type, ...] = (jax.Array,)


def load(source: Source, /) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """Return a function that runs the model on XLA."""
    function = Transformable(source.name, source.model)

    def run(arguments: dict[str, Any]) -> Sequence[Any]:
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arguments)):
            return function.run(arguments)
        arguments = {**arguments, **function.model.words_of_chance()}
        return [as_given(output) for output in function.model.run(arguments)]

    return run
