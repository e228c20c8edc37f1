"""Runs models on XLA, by JAX: loops at the speed of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from whileback.engines.base import Source
from whileback.engines.xla.kept import Kept
from whileback.engines.xla.model import Model
from whileback.engines.xla.ports import as_given
from whileback.engines.xla.transformable import Transformable

__all__ = ["ARRAYS", "load"]

ARRAYS: tuple[type, ...] = (jax.Array,)


def load(source: Source, /, *, mesh: Any = None) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """Return a function that runs the model on XLA, on the devices of a mesh if there is one."""
    if mesh is None:
        return _Run(Transformable(source.name, source.model))
    model = Model.of(source.name, source.model).over(mesh)
    return _Run(Transformable(source.name, source.model, model))


class _Run:
    """Runs a model: arrays of NumPy's give such arrays, one of JAX's gives arrays of JAX's."""

    def __init__(self, function: Transformable) -> None:
        self._function = function

    def __call__(self, arguments: dict[str, Any]) -> Sequence[Any]:
        return self.prepared(arguments)(arguments)

    def prepared(self, arguments: dict[str, Any]) -> Callable[[dict[str, Any]], Sequence[Any]]:
        """Return a function that runs the model on arguments of the same types as these."""
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arguments)):
            return self._function.prepared(arguments)
        run = self._function.model.prepared(arguments)
        return lambda arguments: list(map(as_given, run(arguments)))

    def keep(self, following: Mapping[str, str], first: dict[str, Any]) -> Kept:
        """Return arrays of JAX's that are carried."""
        return Kept(self._function.model, following, first)

    def explain(self) -> str:
        """Tell which programs were compiled."""
        return self._function.model.explain()
