"""One call that judges tangents from all sides, as `assert_gradient` judges gradients."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from tests.judge import LEVELS, Arrays, parse

from whileback.checking.compare import rounding
from whileback.checking.point import Point
from whileback.checking.truth import compile_exactly, widened
from whileback.engines import compile
from whileback.errors import WhilebackWarning
from whileback.gradient import jvp, names, vjp
from whileback.gradient.memory.marking import ImplicitLoops


def assert_tangents(
    model: ir.Model | str,
    of: Sequence[str],
    wrt: Sequence[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    opset: int = 21,
    seed: int = 0,
    kinks: bool = False,
    implicit: ImplicitLoops = None,
) -> Arrays:
    """Assert that `whileback.gradient.jvp` is right for a model, and return the tangents.

    In float64 they must agree with finite differences along random directions of each of `wrt`, to
    1e-6 of their terms, and to 1e-7 with the vjp: the cotangents times the tangents are the
    gradients times the directions. In its own type the model must give the same but for rounding,
    keep its outputs, and pass the checker.

    Args:
        model: a model, or its text.
        of: the values whose tangents are wanted.
        wrt: the values that have directions.
        inputs: values for some of the inputs; the others are random.
        opset: for a text without a header.
        seed: makes random values.
        kinks: whether the model may be at a point where it is not smooth.
        implicit: loops of the model that iterate to a solution.
    """
    model = parse(model, opset) if isinstance(model, str) else model
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhilebackWarning)
        pushed, pulled = (each(model, of, wrt, implicit=implicit) for each in (jvp, vjp))
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before, "model was modified"
    _assert_form(model, pushed, of, wrt)
    point = Point(model, of, wrt, inputs or {}, np.random.default_rng(seed))
    directions: Arrays = {}
    for name in wrt:
        (slope,) = point.slopes(name, -1, 1)
        directions[name] = slope.direction
        total, size = _projected(
            point.cotangents, _run_exactly(pushed, point, {name: slope.direction})
        )
        if not (kinks and slope.derivative.kink):
            off = abs(total - slope.derivative.value)
            assert off <= slope.derivative.error + 1e-6 * size, f"{name}: {total}, not {slope}"
    exact = _run_exactly(pushed, point, directions)
    _assert_transposed(pulled, point, exact, directions)
    return _assert_own_type(pushed, point, exact, directions)


def _assert_form(model: ir.Model, pushed: ir.Model, of: Sequence[str], wrt: Sequence[str]) -> None:
    """Check names, order and types, and let the checker have a look."""
    onnx.checker.check_model(ir.to_proto(pushed), full_check=True)
    own = [value.name for value in model.graph.outputs]
    forward = [*own, *(name for name in dict.fromkeys(of) if name not in own)]
    outputs = [str(value.name) for value in pushed.graph.outputs]
    assert outputs[: len(forward)] == forward, f"{outputs} does not start with {forward}"
    tangents = outputs[-len(of) :]
    for name, output in zip(of, tangents, strict=True):
        assert output.startswith(f"{name}_tangent"), output
    residuals = set(outputs[len(forward) : -len(of)])
    assert all("_residual" in name for name in residuals), residuals
    known = names(pushed)
    assert set(known) - {key for key, name in known.items() if name in residuals} == {*of, *wrt}


def _tangents(pushed: ir.Model, point: Point, directions: Arrays) -> Arrays:
    """Return directions as arguments of a model; a value without one stays where it is."""
    added = _added(pushed, point)
    return {
        str(tangent.name): directions.get(name, np.zeros(np.shape(value)))
        for tangent, (name, value) in zip(added, point.wrt.items(), strict=True)
    }


def _added(model: ir.Model, point: Point) -> list[ir.Value]:
    """Return the inputs that the point has no values for, and the model none either."""
    known = {*point.feeds, *model.graph.initializers}
    return [value for value in model.graph.inputs if value.name not in known]


def _run_exactly(pushed: ir.Model, point: Point, directions: Arrays) -> Arrays:
    """Return the tangents that a model gives in float64."""
    arguments = point.feeds | _tangents(pushed, point, directions)
    results = list(compile_exactly(pushed, arguments)(widened(arguments)).values())
    return dict(zip(point.cotangents, results[-len(point.cotangents) :], strict=True))


def _projected(cotangents: Arrays, tangents: Arrays) -> tuple[float, float]:
    """Return the sum of products of elements, and that of the sizes of these products."""
    terms = [each * tangents[name] for name, each in cotangents.items()]
    return sum(float(np.sum(t)) for t in terms), sum(float(np.sum(np.abs(t))) for t in terms)


def _assert_transposed(
    pulled: ir.Model, point: Point, tangents: Arrays, directions: Arrays
) -> None:
    """Assert that cotangents times tangents are gradients times directions."""
    seeds = [str(value.name) for value in _added(pulled, point)]
    cotangents = dict(zip(seeds, point.cotangents.values(), strict=True))
    arguments = point.feeds | cotangents
    results = list(compile_exactly(pulled, arguments)(widened(arguments)).values())
    gradients = dict(zip(point.wrt, results[-len(point.wrt) :], strict=True))
    forward, size = _projected(point.cotangents, tangents)
    reverse, terms = _projected(gradients, directions)
    assert abs(forward - reverse) <= 1e-7 * max(size, terms), f"{forward}, but {reverse}"


def _assert_own_type(pushed: ir.Model, point: Point, exact: Arrays, directions: Arrays) -> Arrays:
    """Assert that the model gives the same in its own type, at three levels of optimization."""
    types = {value.name: value.dtype for value in pushed.graph.inputs}
    tangents = {
        name: value.astype(types[name].numpy())  # type: ignore[union-attr]
        for name, value in _tangents(pushed, point, directions).items()
    }
    own: Arrays = {}
    for level in LEVELS:
        results = list(
            compile(pushed, optimization=level, threads=1)(point.feeds | tangents).values()
        )
        own = dict(zip(exact, results[-len(exact) :], strict=True))
        for name, want in exact.items():
            if want.size == own[name].size == 0:
                continue  # an empty stack has the rank that the body declares: (0,) or (0, 0)
            assert own[name].shape == want.shape, name
            scale = np.max(np.abs(want), initial=0.0)
            atol = rounding(own[name].dtype) * scale
            got = own[name].astype(np.float64)
            np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=f"{name}, {level}")
    return own
