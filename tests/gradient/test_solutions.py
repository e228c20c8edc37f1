"""Tangents at the solutions of loops, and matrices of such, against those of all trips."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.gradient.rules.controlflow.test_implicit import (
    AT,
    DEQ,
    EXACT,
    IN_A_BRANCH,
    IN_A_LOOP,
    NEWTON,
    SINKHORN,
    W,
)
from tests.judge import parse
from tests.judge_forward import assert_tangents

from whileback import compile, implicit, names
from whileback.errors import UnsupportedError
from whileback.gradient import hessian, hvp, jacobian, jvp, vjp
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.graph.scopes import is_loop, loop_view, walk

SCAN = """(double[2] x, double[90] count) => (double[2] y) {
  y = Scan<num_scan_inputs = 1, body = b (double[2] z, double k) => (double[2] u) {
    s = Cos(z)
    u = Mul(s, x)
  }>(x, count)
}"""
SINKHORN_AT = {
    "M": 60,
    "C": np.array([[0.5, 1.0], [0.25, 0.125], [1.5, 0.75]]),
    "a": np.array([0.25, 0.5, 0.25]),
    "b": np.array([0.625, 0.375]),
}
SMALL = {"x": np.array([0.5, -0.25]), "W": W[:2, :2]}
Model = tuple[str, str, list[str], dict[str, Any], ImplicitLoops]
MODELS: dict[str, Model] = {
    "layer": (DEQ, "y", ["x", "W"], AT, {"y": implicit("z", **EXACT)}),
    "newton": (
        NEWTON,
        "y",
        ["a"],
        {"a": np.array([2.0, 0.5]), "tol": 1e-15},
        {"y": implicit("z", **EXACT)},
    ),
    "sinkhorn": (SINKHORN, "P", ["C", "a"], SINKHORN_AT, {"v": implicit("v", **EXACT)}),
    "in_a_loop": (IN_A_LOOP, "y", ["x", "W"], SMALL, {"t": implicit("z", **EXACT)}),
    "in_a_branch": (
        IN_A_BRANCH,
        "y",
        ["x"],
        {"up": True, "x": np.array([0.5, 0.75])},
        {"Loop": implicit("z", **EXACT)},
    ),
    "scan": (SCAN, "y", ["x"], {"x": np.array([0.5, 0.75])}, {"y": implicit("z", **EXACT)}),
}


def given(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what a model reads: inputs, and random directions."""
    rng = np.random.default_rng(0)
    return inputs | {
        str(value.name): rng.normal(size=list(value.shape or ()))
        for value in model.graph.inputs
        if value.name not in inputs
    }


@pytest.mark.parametrize("name", MODELS)
def test_tangents(name: str) -> None:
    text, of, wrt, inputs, loops = MODELS[name]
    assert_tangents(text, [of], wrt, inputs, kinks=True, implicit=loops)
    pushed = [jvp(parse(text), of, wrt, implicit=each) for each in (loops, None)]
    feeds = given(pushed[0], inputs)
    runs = [compile(each)(feeds)[f"{of}_tangent"] for each in pushed]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("derivative", [hvp, jacobian, hessian])
def test_as_unrolled(derivative: Any, name: str) -> None:
    text, of, wrt, inputs, loops = MODELS[name]
    options = {} if derivative is jacobian else {"reduce": "sum"}
    models = [derivative(parse(text), of, wrt, implicit=each, **options) for each in (loops, None)]
    feeds = given(models[0], inputs)
    runs = [compile(each)(feeds) for each in models]
    assert set(runs[1]) <= set(runs[0])
    for key, expected in runs[1].items():
        np.testing.assert_allclose(runs[0][key], expected, rtol=1e-8, atol=1e-11, err_msg=key)


@pytest.mark.parametrize("name", MODELS)
def test_tangents_of_tangents(name: str) -> None:
    """And gradients of tangents."""
    text, of, wrt, inputs, loops = MODELS[name]
    for again in (jvp, vjp):
        pushed = [jvp(parse(text), of, wrt, implicit=each) for each in (loops, None)]
        models = [again(each, f"{of}_tangent", wrt) for each in pushed]
        feeds = given(models[0], inputs)
        runs = [compile(each)(feeds) for each in models]
        assert set(runs[1]) <= set(runs[0])
        for key, expected in runs[1].items():
            np.testing.assert_allclose(runs[0][key], expected, rtol=1e-8, atol=1e-11, err_msg=key)


def test_the_form_of_the_tangent() -> None:
    """The loop stays as it is; another one, which writes nothing, solves for the tangent."""
    model = jvp(parse(DEQ), "y", ["x"], implicit={"y": implicit("z", tolerance=1e-3, trips=7)})
    before, solver = [loop_view(node) for node in walk(model.graph) if is_loop(node)]
    assert len(before.carries) == 2
    assert not before.scan_outputs
    assert not solver.scan_outputs
    assert solver.limit is not None and solver.limit.const_value is not None
    assert solver.limit.const_value.numpy() == 7


@pytest.mark.parametrize("trips", [0, 1])
def test_without_a_trip_initial_values_are_handed_on(trips: int) -> None:
    text = """(int64 M, float[2] z0, float[2] x) => (float[2] y) {
      y = Loop(M, , z0) <body = b (int64 i, bool c, float[2] z) => (bool d, float[2] u) {
        d = Identity(c)
        half = Constant<value_float = 0.5>()
        h = Mul(z, half)
        u = Add(h, x)
      }>
    }"""
    model = jvp(parse(text), "y", ["z0", "x"], implicit={"y": "z"})
    run = compile(model)(M=trips, z0=[1, 2], x=[0.5, 0.25], z0_tangent=[3, 4], x_tangent=[5, 6])
    np.testing.assert_allclose(run["y_tangent"], [10, 12] if trips else [3, 4], rtol=1e-5)
    assert run["Loop_residual"] <= 1e-6


@pytest.mark.parametrize(("tolerance", "trips"), [(1e-2, 1000), (1e-6, 1000), (0.0, 3)])
def test_the_residual_tells_how_well_it_was_solved(tolerance: float, trips: int) -> None:
    """That of a matrix is the largest of its rows or columns."""
    loops = {"y": implicit("z", tolerance=tolerance, trips=trips)}
    exact = compile(jacobian(parse(DEQ), "y", ["x"]))(AT)["y_x_jacobian"]
    for wrt in (["x"], ["x", "W"]):  # columns, rows
        model = jacobian(parse(DEQ), "y", wrt, implicit=loops)
        run = compile(model)(AT)
        assert names(model)["Loop_residual"] == "Loop_residual"
        assert 0 < run["Loop_residual"] <= (tolerance if trips > 3 else 0.1)
        error = np.max(np.abs(run["y_x_jacobian"] - exact))
        assert error <= 10 * max(tolerance, run["Loop_residual"])
    model = jvp(parse(DEQ), "y", "x", implicit=loops)
    assert [value.name for value in model.graph.outputs] == ["y", "Loop_residual", "y_tangent"]
    columns = [compile(model)({**AT, "x_tangent": unit})["Loop_residual"] for unit in np.eye(3)]
    run = compile(jacobian(parse(DEQ), "y", "x", implicit=loops))(AT)
    assert run["Loop_residual"] == max(columns)


def test_what_is_no_solution_is_refused() -> None:
    text = """(double[2] x) => (double[T,2] s) {
      n = Constant<value_int = 9>()
      y, s = Loop(n, , x)
        <body = b (int64 i, bool c, double[2] z) => (bool d, double[2] u, double[2] r) {
        d = Identity(c)
        u = Cos(z)
        r = Sin(z)
      }>
    }"""
    message = (
        "Loop 'Loop' is an iteration of 'z' to a solution, of which the way there is no part: its "
        "stack 's' has no gradient. Differentiate what it carries, or leave the loop out of "
        "implicit=."
    )
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        jvp(parse(text), "s", "x", implicit={"Loop": "z"})
