"""Checks a gradient model against finite differences and reports a verdict per value."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.checking.compare import (
    compare_arithmetic,
    compare_formulas,
    draw_moves,
    exact_gradients,
    rounding,
    rounding_of_constants,
    run_moved,
)
from whileback.checking.narrowing import narrowed
from whileback.checking.point import Point, Slope
from whileback.checking.report import Comparison, Finding, Report
from whileback.engines import compile
from whileback.errors import ArgumentError

__all__ = ["Expectation", "check", "cotangent_feeds", "cotangent_inputs", "expectations"]


def check(
    model: ir.Model,
    of: Sequence[str],
    wrt: Sequence[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    gradient_model: ir.Model,
    seed: int = 0,
    elements: int = 64,
    directions: int = 3,
) -> Report:
    """Check that a gradient model computes the gradients of a model.

    Args:
        model: the model itself.
        of: the values that were differentiated.
        wrt: the values whose gradients are checked.
        inputs: values for some of the model's inputs; the others get random ones.
        gradient_model: ends its outputs with the gradients, in the order of `wrt`. Its inputs
            that the model does not have, unless they have a default, are the cotangents, in
            the order of `of`; without any, each element of `of` counts as 1.
        seed: makes the random values.
        elements: a gradient of at most so many elements is checked one by one.
        directions: a larger one is checked along so many random directions.

    Raises:
        ArgumentError: a name is unknown, or an input has no random value and none is given.
        EngineError: no engine runs the model.
    """
    if seed < 0:
        raise ArgumentError(f"seed= is {seed}; it must be 0 or more.")
    rng = np.random.default_rng(seed)
    seeds = cotangent_inputs(model, gradient_model)
    point = Point(model, of, wrt, inputs or {}, rng, uniform=not seeds)
    arguments = {**point.feeds, **cotangent_feeds(seeds, point)}
    expected = expectations(point, gradient_model, arguments, rng, elements, directions)
    compiled = compile(gradient_model)
    outputs = compiled(arguments)
    runs = (outputs, run_moved(compiled, arguments, draw_moves(arguments, rng), outputs))
    own, again = (list(run.values())[-len(wrt) :] for run in runs)
    return Report(tuple(_findings(point, expected, own, again)))


def _findings(
    point: Point,
    expected: Sequence[Expectation],
    own: Sequence[np.ndarray],
    again: Sequence[np.ndarray],
) -> Iterator[Finding]:
    """Yield the verdict on each gradient, with the element that is wrong."""
    for each, gradient, moved in zip(expected, own, again, strict=True):
        start = time.perf_counter()
        judged = narrowed(each.judge(gradient, moved), point, each.slopes, each.formula(gradient))
        yield replace(judged, seconds=each.seconds + time.perf_counter() - start)


def cotangent_inputs(model: ir.Model, gradient_model: ir.Model) -> list[ir.Value]:
    """Return the gradient model's inputs that are new and have no default."""
    old = {value.name for value in model.graph.inputs} | set(gradient_model.graph.initializers)
    return [value for value in gradient_model.graph.inputs if value.name not in old]


def cotangent_feeds(seeds: Sequence[ir.Value], point: Point) -> dict[str, np.ndarray]:
    """Return the point's cotangents as arguments, each in the type of its input."""
    if not seeds:
        return {}
    return {
        str(seed.name): cotangent.astype(seed.dtype.numpy())  # type: ignore[union-attr]
        for seed, cotangent in zip(seeds, point.cotangents.values(), strict=True)
    }


@dataclass(frozen=True)
class Expectation:
    """What the gradient of one value should be.

    Attributes:
        name: the value.
        shape: its shape.
        slopes: the derivatives that finite differences gave.
        exact: the gradient that the gradient model gives in float64, and more of them for inputs
            that are off by one rounding; None where no engine runs it in float64.
        steepness: the slope at which the value's size would change the sum by its own size.
        seconds: how long it took to find that out.
    """

    name: str
    shape: tuple[int, ...]
    slopes: Sequence[Slope]
    exact: Sequence[np.ndarray] | None
    steepness: float
    seconds: float = 0.0

    def formula(self, own: np.ndarray) -> np.ndarray:
        """Return what is compared with the differences: the gradient in float64, or else `own`."""
        return own if self.exact is None else self.exact[0]

    def judge(self, own: np.ndarray, again: np.ndarray | None = None) -> Finding:
        """Return the verdict on the gradient that the gradient model gave.

        `again` is what it gave for inputs that are off by one rounding: where terms cancel, that
        shows how much of the gradient is rounding. Then what does not show in the last digit of
        the values differentiated, such as the slope of a saturated gate, is let pass as well.
        """
        described = f"{ir.DataType.from_numpy(own.dtype).name}{_dims(own.shape)}"
        if own.shape != self.shape:
            return Finding(self.name, described, f"WRONG shape, not {_dims(self.shape)}")
        if self.exact is None:
            compared = compare_formulas(self.slopes, own.astype(np.float64), rounding(own.dtype))
        else:
            exact, *moved = self.exact
            compared = compare_formulas(self.slopes, exact, rounding_of_constants(own.dtype))
            compared.append(compare_arithmetic(own, exact, moved, again, self.steepness))
        compared = compared or [Comparison("", 0.0, 0.0, 0.0)]
        worst = max(compared, key=_weight)
        kinks = tuple(comparison for comparison in compared if comparison.kink)
        return Finding(
            self.name, described, _verdict(compared, worst), worst, kinks, len(self.slopes)
        )


def expectations(
    point: Point,
    gradient_model: ir.Model,
    arguments: Mapping[str, Any],
    rng: np.random.Generator,
    elements: int,
    directions: int,
) -> list[Expectation]:
    """Return what the last outputs of a gradient model should be, one for each of `wrt`."""
    exact, limits = exact_gradients(gradient_model, arguments, rng), (elements, directions)
    outputs = [str(value.name) for value in gradient_model.graph.outputs][-len(point.wrt) :]
    return [
        _expectation(point, name, None if exact is None else [run[output] for run in exact], limits)
        for name, output in zip(point.wrt, outputs, strict=True)
    ]


def _expectation(
    point: Point, name: str, exact: Sequence[np.ndarray] | None, limits: tuple[int, int]
) -> Expectation:
    start = time.perf_counter()
    slopes, steepness = point.slopes(name, *limits), point.steepness(name)
    seconds = time.perf_counter() - start
    return Expectation(name, point.wrt[name].shape, slopes, exact, steepness, seconds)


def _dims(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _weight(comparison: Comparison) -> tuple[bool, bool, float]:
    """Return by what the worst of comparisons is chosen."""
    wrong = comparison.badness > 1
    return wrong, comparison.is_blind, comparison.badness + (not math.isfinite(comparison.got))


def _verdict(compared: Sequence[Comparison], worst: Comparison) -> str:
    if worst.badness > 1:
        return "WRONG"
    if any(comparison.is_blind for comparison in compared):
        return "unknown"
    if not all(math.isfinite(comparison.got) for comparison in compared):
        return "infinite"
    if any(comparison.kink for comparison in compared):
        return "kink"
    if all(comparison.got == 0 for comparison in compared):
        return "zero"
    return "ok"
