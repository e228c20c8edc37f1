"""Of every operator: cotangents times tangents are gradients times directions.

That gradients are right is judged elsewhere, against finite differences.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from tests.corpus.cases import Case
from tests.gradient.dtypes import models

from whileback.checking.truth import compile_exactly, widened
from whileback.errors import EngineError, NoGradientError, WhilebackWarning
from whileback.gradient import jvp, vjp


def odd(rng: np.random.Generator, value: Any) -> np.ndarray:
    return np.asarray(2 * rng.integers(-32, 32, np.shape(value)) + 1) / 32


def differentiated(transform: Callable[..., ir.Model], case: Case) -> ir.Model:
    try:
        return transform(case.model, case.of, case.wrt)
    except NoGradientError:
        return transform(case.model, case.of, case.wrt, quantized="straight-through")


def run(model: ir.Model, case: Case, added: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Return the last outputs in float64, given the inputs that the case has no values for."""
    inputs = [str(v.name) for v in model.graph.inputs if v.name not in case.feeds]
    inputs = [name for name in inputs if name not in model.graph.initializers]
    arguments = case.feeds | dict(zip(inputs, added, strict=True))
    outputs = list(compile_exactly(model, arguments)(widened(arguments)).values())
    return [np.asarray(value) for value in outputs[-count:]]


def difference(case: Case) -> float:
    """Return by what part of their terms the two products differ."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhilebackWarning)
        pushed, pulled = (differentiated(transform, case) for transform in (jvp, vjp))
    directions = [odd(rng, case.feeds[name]) for name in case.wrt]
    tangents = run(pushed, case, directions, len(case.of))
    cotangents = [odd(rng, tangent) for tangent in tangents]
    gradients = run(pulled, case, cotangents, len(case.wrt))
    forward = [c * t for c, t in zip(cotangents, tangents, strict=True)]
    reverse = [g * d for g, d in zip(gradients, directions, strict=True)]
    sizes = [sum(float(np.sum(np.abs(term))) for term in terms) for terms in (forward, reverse)]
    sums = [sum(float(np.sum(term)) for term in terms) for terms in (forward, reverse)]
    return abs(sums[0] - sums[1]) / max(*sizes, 1e-12)


def test_the_first_model_of_every_operator() -> None:
    wrong, judged = {}, 0
    for case in {case.operator: case for case in reversed(models().values())}.values():
        try:
            off = difference(case)
        except EngineError:
            continue
        if np.isnan(off):  # where a slope is infinite
            continue
        judged += 1
        if not off < 1e-6:
            wrong[case.name] = off
    assert not wrong
    assert judged > 120
