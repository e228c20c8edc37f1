"""A model at one point: arguments, cotangents, and slopes that finite differences give there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.checking.finite_differences import Derivative, derivative, size_of_terms
from whileback.checking.inputs import naming_made_up, random_inputs
from whileback.checking.truth import Arrays, Truth
from whileback.engines.arguments import Port, bind
from whileback.errors import UnsupportedError
from whileback.gradient.activity import dependents
from whileback.graph.randomness import may_draw
from whileback.graph.scopes import definitions, stands_for, walk, walk_graphs

__all__ = ["Point", "Slope", "place"]


@dataclass(frozen=True)
class Slope:
    """The derivative of Σ cotangent·of along a direction of one value."""

    where: str
    direction: np.ndarray
    derivative: Derivative


class Point:
    """The values `of` and `wrt` of a model for some arguments, and a cotangent for each `of`.

    Cotangents are odd multiples of 1/32 between -2 and 2, which every float type holds exactly.

    Raises:
        ArgumentError: an input is not given and none can be made up, or a value does not exist.
        EngineError: no engine runs the model.
        UnsupportedError: the model draws random numbers, or hands on no gradient somewhere.
    """

    def __init__(
        self,
        model: ir.Model,
        of: Sequence[str],
        wrt: Sequence[str],
        inputs: Mapping[str, Any],
        rng: np.random.Generator,
        uniform: bool = False,
    ) -> None:
        _refuse_stops(model, wrt)
        signature = {str(value.name): Port.of(value) for value in model.graph.inputs}
        given = bind(str(model.graph.name), signature, signature, inputs, {})
        self.feeds = random_inputs(model, given, rng)
        with naming_made_up(given, self.feeds):
            self._truth = Truth(model, of, wrt, self.feeds)
            values, self.wrt = self._truth.values(self.feeds)
        _refuse_random(model, values, self._truth.values(self.feeds)[0])
        self.cotangents: Arrays = {
            name: np.ones(value.shape) if uniform else _odd(rng, value.shape)
            for name, value in values.items()
        }
        self._rng = rng
        terms = [self.cotangents[name] * value for name, value in values.items()]
        self._sum = float(sum(np.sum(term) for term in terms))
        self._size = float(sum(np.sum(np.abs(term)) for term in terms))

    def slopes(self, name: str, elements: int, directions: int) -> list[Slope]:
        """Return the slopes along each element of a small value, or along random directions."""
        found: list[Slope] = []
        scale, size = 0.0, max(self._size, self._size_of_terms(name))
        for where, direction, unit in self._directions(name, elements, directions):
            slope = self._slope(name, direction, unit, size, 1e-8 * scale)
            scale = max(scale, abs(slope.value))
            found.append(Slope(where, direction, slope))
        return found

    def along(self, name: str, direction: np.ndarray) -> Slope:
        """Return the slope along one direction, such as part of one that `slopes` took."""
        slope = self._slope(name, direction, self._unit(name), self._size, 0.0)
        indices = np.argwhere(direction)
        return Slope(place(indices[0]) if len(indices) == 1 else "", direction, slope)

    def _slope(
        self, name: str, direction: np.ndarray, unit: float, size: float, enough: float
    ) -> Derivative:
        projected = self._truth.along(self.feeds, self.cotangents, name, unit * direction)
        step = derivative(projected, self._sum, size=size, enough=unit * enough)
        return step.scaled(1 / unit)

    def _size_of_terms(self, name: str) -> float:
        """Return it for changes of all elements at once, since few may round anything anew."""
        direction = _odd(np.random.default_rng(0), self.wrt[name].shape) * self._sizes(name)
        projected = self._truth.along(self.feeds, self.cotangents, name, direction)
        return size_of_terms(projected, self._sum) if direction.size else 0.0

    def steepness(self, name: str) -> float:
        """Return the slope at which a value's whole size would change the sum by its own size.

        What is smaller than one rounding of that does not show in a float's last digit.
        """
        return self._size / self._unit(name)

    def _unit(self, name: str) -> float:
        value = self.wrt[name]
        size = float(np.sqrt(np.mean(value**2))) if value.size else 0.0
        return size if np.isfinite(size) and size > 0 else 1.0

    def _sizes(self, name: str) -> np.ndarray:
        unit = self._unit(name)
        sizes: np.ndarray = np.maximum(np.nan_to_num(np.abs(self.wrt[name]), posinf=unit), unit / 8)
        return sizes

    def _directions(
        self, name: str, elements: int, directions: int
    ) -> Iterator[tuple[str, np.ndarray, float]]:
        """Yield directions and the size of steps along them.

        Each element moves in proportion to itself, as far as it is not small beside the others:
        what is positive stays positive, and a loop that ends for it still ends.
        """
        value, unit, sizes = self.wrt[name], self._unit(name), self._sizes(name)
        if value.size > elements:
            for count in range(directions):
                yield f"direction {count}", _odd(self._rng, value.shape) * sizes / unit, unit
            return
        for index in np.ndindex(value.shape):
            direction = np.zeros(value.shape)
            direction[index] = 1.0
            yield place(index), direction, float(sizes[index])


def place(index: Iterable[int | np.integer[Any]]) -> str:
    """Return an index as reports print it: `[0,3]`."""
    return f"[{','.join(map(str, index))}]"


def _odd(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(2 * rng.integers(-32, 32, size=shape) + 1) / 32


def _refuse_random(model: ir.Model, once: Arrays, again: Arrays) -> None:
    """Raise UnsupportedError if two runs gave different values."""
    if all(np.array_equal(once[name], again[name], equal_nan=True) for name in once):
        return
    drawing = [node for node in walk(model.graph) if may_draw(node)]
    listed = ", ".join(f"{node.name!r} ({node.op_type})" for node in drawing)
    raise UnsupportedError(
        f"Model {model.graph.name!r} gives other values each time it runs, so there are no "
        f"differences to take. It draws random numbers in: {listed or 'an unknown node'}. Check "
        "a copy of the model that has constants there."
    )


def _refuse_stops(model: ir.Model, wrt: Sequence[str]) -> None:
    """Raise UnsupportedError if a copy of what depends on `wrt` has a gradient of its own."""
    marked = [node for node in walk(model.graph) if stands_for(node)]
    if not marked:
        return
    values = (value for graph in walk_graphs(model.graph) for value in definitions(graph))
    reached = dependents(model.graph, [v for v in values if v.name in wrt], lambda _: True)
    for node in marked:
        if node.outputs[0] in reached:
            raise UnsupportedError(
                f"Value {node.outputs[0].name!r} of model {model.graph.name!r} is what "
                f"{stands_for(node)} makes of {node.inputs[0].name!r}, which finite differences "  # type: ignore[union-attr]
                f"take for a copy, so that they tell nothing of the gradient. Check values that it "
                "does not depend on."
            )
