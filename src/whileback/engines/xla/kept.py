"""What a model on XLA carries from run to run: arrays that stay on their device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir

from whileback.engines.xla.model import Model
from whileback.engines.xla.ports import as_given
from whileback.engines.xla.sharding import at_once
from whileback.graph.shapes import static_shape

__all__ = ["Kept"]


class Kept:
    """Carried values as arrays of JAX's, which one run gives and the next one takes.

    What keeps its shape is written in place of what it was.
    """

    def __init__(
        self, model: Model, following: Mapping[str, str], first: Mapping[str, Any]
    ) -> None:
        self._model, self._following = model.spending(_steady(model.graph, following)), following
        self._outputs = [str(value.name) for value in model.graph.outputs]
        self._values: dict[str, Any] = {}
        self.write(first)

    def run(self, arguments: dict[str, Any]) -> Sequence[Any]:
        """Run, and carry on."""
        chance = self._model.words_of_chance()
        results = self._model.run({**self._values, **arguments, **chance})
        out = dict(zip(self._outputs, results, strict=True))
        self._values = {name: out[new] for name, new in self._following.items()}
        carried = set(self._following.values())
        return [as_given(value) for name, value in out.items() if name not in carried]

    def read(self) -> dict[str, Any]:
        """Return the arrays."""
        return dict(self._values)

    def write(self, values: Mapping[str, Any]) -> None:
        """Put other values onto the device."""
        with at_once():
            self._values.update(jax.tree.map(jnp.array, dict(values)))


def _steady(graph: ir.Graph, following: Mapping[str, str]) -> list[str]:
    """Return the inputs whose next values have their shapes, each its own."""
    counts = Counter(following.values())
    inputs = {str(value.name): value for value in graph.inputs}
    outputs = {str(value.name): value for value in graph.outputs}
    return [
        name
        for name, new in following.items()
        if counts[new] == 1
        and static_shape(inputs[name]) is not None
        and static_shape(inputs[name]) == static_shape(outputs[new])
    ]
