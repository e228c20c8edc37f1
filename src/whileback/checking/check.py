"""Checks a gradient model against finite differences and reports a verdict per value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.checking.compare import (
    compare_arithmetic,
    compare_formulas,
    exact_gradients,
    rounding,
)
from whileback.checking.point import Point, Slope
from whileback.checking.report import Comparison, Finding, Report
from whileback.engines import compile

__all__ = ["check", "cotangent_feeds", "cotangent_inputs", "finding"]


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
        gradient_model: has the model's inputs, perhaps a cotangent for each of `of` (else each
            of their elements counts as 1), and the gradients among its outputs.
        names: the gradient of each of `wrt`, the cotangent of each of `of` that has one; else
            `…_grad`.
        seed: makes the random values.
        elements: a gradient of at most so many elements is checked one by one.
        directions: a larger one is checked along so many random directions.

    Raises:
        ArgumentError: a name is unknown, or an input has no random value and none is given.
        EngineError: no engine runs the model.
    """
    rng = np.random.default_rng(seed)
    seeds = cotangent_inputs(model, gradient_model)
    point = Point(model, of, wrt, inputs or {}, rng, uniform=not seeds)
    arguments = {**point.feeds, **cotangent_feeds(seeds, point)}
    own = compile(gradient_model)(arguments)
    exact = exact_gradients(gradient_model, arguments, rng)
    findings = []
    for name, output in zip(wrt, list(own)[-len(wrt) :], strict=True):
        pair = None if exact is None else (exact[0][output], exact[1][output])
        slopes = point.slopes(name, elements, directions)
        findings.append(finding(name, slopes, point.wrt[name].shape, own[output], pair))
    return Report(tuple(findings))


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


def finding(
    name: str,
    slopes: Sequence[Slope],
    shape: tuple[int, ...],
    own: np.ndarray,
    exact: tuple[np.ndarray, np.ndarray] | None,
) -> Finding:
    """Return the verdict on the gradient of one value.

    Args:
        name: the value.
        slopes: the derivatives that finite differences gave.
        shape: the shape of the value.
        own: the gradient that the gradient model gave.
        exact: the same in float64, and once more for inputs that are off by one rounding.
    """
    described = f"{ir.DataType.from_numpy(own.dtype).name}[{','.join(map(str, own.shape))}]"
    if own.shape != shape:
        return Finding(name, described, f"WRONG shape, not [{','.join(map(str, shape))}]")
    if exact is None:
        compared = compare_formulas(slopes, own.astype(np.float64), rounding(own.dtype))
    else:
        compared = compare_formulas(slopes, exact[0])
        compared.append(compare_arithmetic(own, *exact))
    compared = compared or [Comparison("", 0.0, 0.0, 0.0)]
    worst = max(compared, key=lambda comparison: comparison.badness)
    return Finding(name, described, _verdict(compared, worst), worst)


def _verdict(compared: Sequence[Comparison], worst: Comparison) -> str:
    if worst.badness > 1:
        return "WRONG"
    if any(comparison.kink for comparison in compared):
        return "kink"
    if all(comparison.got == 0 for comparison in compared):
        return "zero"
    return "ok"
