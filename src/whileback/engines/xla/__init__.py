"""Runs models on XLA, by JAX: loops at the speed of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from whileback.engines.base import Source
from whileback.engines.xla.model import Model
from whileback.engines.xla.ports import as_given

__all__ = ["ARRAYS", "load"]

ARRAYS: tuple[type, ...] = (jax.Array,)


def load(source: Source, /) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """Return a function that runs the model on XLA."""
    model = Model.of(source.name, source.model)

    def run(arguments: dict[str, Any]) -> Sequence[Any]:
        outputs = model.run({**arguments, **model.words_of_chance()})
        return [as_given(output) for output in outputs]

    return run
