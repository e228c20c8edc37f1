"""Loops that iterate to a solution: gradients at the solution, against those of all trips."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback import compile, implicit, load, names, save, show
from whileback.errors import ArgumentError, UnsupportedError
from whileback.gradient import vjp
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.graph.scopes import is_loop, loop_view, walk

# Models without a network's rounding, so that all ways to a gradient can be told apart.
EXACT = {"tolerance": 1e-14, "trips": 300}

DEQ = """(double[3] x, double[3,3] W, double tol) => (double[3] y) {
  start = Constant<value_floats = [0.0, 0.0, 0.0]>()
  z0 = Cast<to = 11>(start)
  far = ReduceMax<keepdims = 0>(tol)
  go = Greater(far, tol)
  all = Not(go)
  y, last = Loop(, all, z0, far) <body = b (int64 i, bool c, double[3] z, double e)
      => (bool d, double[3] u, double n) {
    h = MatMul(z, W)
    a = Add(h, x)
    u = Tanh(a)
    m = Sub(u, z)
    p = Abs(m)
    n = ReduceMax<keepdims = 0>(p)
    d = Greater(n, tol)
  }>
}"""
W = np.array([[0.3, -0.2, 0.1], [0.25, 0.15, -0.3], [-0.1, 0.2, 0.35]])
X = np.array([0.5, -1.0, 0.25])
AT = {"x": X, "W": W, "tol": 1e-15}

# z² = a by Newton's method.
NEWTON = """(double[2] a, double tol) => (double[2] y) {
  y = Loop(, , a) <body = b (int64 i, bool c, double[2] z) => (bool d, double[2] u) {
    half = Constant<value_float = 0.5>()
    k = Cast<to = 11>(half)
    q = Div(a, z)
    s = Add(z, q)
    u = Mul(k, s)
    m = Sub(u, z)
    p = Abs(m)
    e = ReduceMax<keepdims = 0>(p)
    d = Greater(e, tol)
  }>
}"""

# Row and column scales u, v with u·K·v of sums a and b; the loss is on both of them. They are
# defined up to a factor only, so that v is brought to a sum of 1.
SINKHORN = """(int64 M, double[3,2] C, double[3] a, double[2] b) => (double[3,2] P) {
  axis = Constant<value_ints = [1]>()
  minus = Neg(C)
  K = Exp(minus)
  Kt = Transpose(K)
  ones = Div(b, b)
  threes = Div(a, a)
  u, v = Loop(M, , threes, ones) <body = g (int64 i, bool c, double[3] u0, double[2] v0)
      => (bool d, double[3] u1, double[2] v1) {
    d = Identity(c)
    Kv = MatMul(K, v0)
    u1 = Div(a, Kv)
    Ku = MatMul(Kt, u1)
    w = Div(b, Ku)
    sum = ReduceSum<keepdims = 0>(w)
    v1 = Div(w, sum)
  }>
  column = Unsqueeze(u, axis)
  rows = Mul(column, K)
  P = Mul(rows, v)
}"""


def assert_as_unrolled(
    text: str, of: str, wrt: list[str], inputs: dict[str, Any], loops: ImplicitLoops
) -> None:
    """Compare the first and the second order, and let finite differences judge both."""
    model = parse(text)
    first = [vjp(model, of, wrt, implicit=each) for each in (loops, None)]
    again = [vjp(each, f"{wrt[0]}_grad", [*wrt, f"{of}_grad"]) for each in first]
    rng = np.random.default_rng(0)
    feeds = dict(inputs)
    for value in again[0].graph.inputs:
        if value.name not in inputs:
            feeds[str(value.name)] = rng.normal(size=list(value.shape or ()))
    runs = [compile(each)(feeds) for each in again]
    assert set(runs[1]) <= set(runs[0])
    for name, expected in runs[1].items():
        np.testing.assert_allclose(runs[0][name], expected, rtol=1e-9, atol=1e-12, err_msg=name)
    assert_gradient(model, [of], wrt, inputs, implicit=loops, second_order=True, kinks=True)


def test_fixed_point_layer() -> None:
    assert_as_unrolled(DEQ, "y", ["x", "W"], AT, {"y": implicit("z", **EXACT)})


def test_newton() -> None:
    inputs = {"a": np.array([2.0, 0.5]), "tol": 1e-15}
    assert_as_unrolled(NEWTON, "y", ["a"], inputs, {"y": implicit("z", **EXACT)})
    gradients = assert_gradient(NEWTON, ["y"], ["a"], inputs, implicit={"Loop": "u"}, kinks=True)
    assert gradients["a"].shape == (2,)


def test_sinkhorn() -> None:
    """The other result is what the body makes of the solution."""
    inputs = {
        "M": 60,
        "C": np.array([[0.5, 1.0], [0.25, 0.125], [1.5, 0.75]]),
        "a": np.array([0.25, 0.5, 0.25]),
        "b": np.array([0.625, 0.375]),
    }
    assert_as_unrolled(SINKHORN, "P", ["C", "a", "b"], inputs, {"v": implicit("v", **EXACT)})


def test_the_form_of_the_gradient() -> None:
    """The forward loop writes no tape; the solver ends after `trips` at the latest."""
    model = vjp(parse(DEQ), "y", ["x"], implicit={"y": implicit("z", tolerance=1e-3, trips=7)})
    loops = [loop_view(node) for node in walk(model.graph) if is_loop(node)]
    forward, solver = loops
    assert not forward.scan_outputs
    assert not solver.scan_outputs
    assert solver.limit is not None and solver.limit.const_value is not None
    assert solver.limit.const_value.numpy() == 7
    assert all(node.op_type != "Scan" for node in walk(model.graph))
    note = "# implicit, as asked for: differentiated where 'z' stays; a trip keeps nothing"
    assert note in map(str.strip, show(model, everything=True).splitlines())


@pytest.mark.parametrize(("tolerance", "trips"), [(1e-2, 1000), (1e-6, 1000), (0.0, 3)])
def test_the_residual_tells_how_well_it_was_solved(tolerance: float, trips: int) -> None:
    loops = {"y": implicit("z", tolerance=tolerance, trips=trips)}
    model = vjp(parse(DEQ), "y", "x", implicit=loops)
    assert names(model) == {"y": "y_grad", "Loop_residual": "Loop_residual", "x": "x_grad"}
    assert [value.name for value in model.graph.outputs] == ["y", "Loop_residual", "x_grad"]
    exact = compile(vjp(parse(DEQ), "y", "x"))
    for size in (1.0, 1e-200, 0.0):
        feeds = {**AT, "y_grad": size * np.array([1.0, -2.0, 0.5])}
        run = compile(model)(feeds)
        assert run["Loop_residual"] <= tolerance or (trips == 3 and run["Loop_residual"] < 0.1)
        error = np.max(np.abs(run["x_grad"] - exact(feeds)["x_grad"]))
        assert error <= 10 * size * max(tolerance, run["Loop_residual"])


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
    model = vjp(parse(text), "y", ["z0", "x"], implicit={"y": "z"})
    run = compile(model)(M=trips, z0=[1, 2], x=[0.5, 0.25], y_grad=[3, 4])
    expected = ([0, 0], [6, 8]) if trips else ([3, 4], [0, 0])
    np.testing.assert_allclose(run["z0_grad"], expected[0])
    np.testing.assert_allclose(run["x_grad"], expected[1], rtol=1e-5)
    assert run["Loop_residual"] <= 1e-6


def test_what_is_carried_unchanged_counts_as_captured() -> None:
    text = """(double[3] x, double[3,3] V) => (double[3] y) {
      n = Constant<value_int = 80>()
      start = Sub(x, x)
      y, last = Loop(n, , start, V)
        <body = b (int64 i, bool c, double[3] z, double[3,3] W)
          => (bool d, double[3] u, double[3,3] same) {
        d = Identity(c)
        same = Identity(W)
        h = MatMul(z, W)
        a = Add(h, x)
        u = Tanh(a)
      }>
    }"""
    loops = {"y": implicit("y", **EXACT)}
    assert_as_unrolled(text, "y", ["V", "x"], {"x": X, "V": W}, loops)


IN_A_LOOP = """(double[2] x, double[2,2] W) => (double[2] y) {
  n = Constant<value_int = 3>()
  many = Constant<value_int = 90>()
  y = Loop(n, , x) <body = b (int64 i, bool c, double[2] s) => (bool d, double[2] t) {
    d = Identity(c)
    t = Loop(many, , s) <body = e (int64 j, bool f, double[2] z) => (bool g, double[2] u) {
      g = Identity(f)
      zero = Constant<value_float = 0.0>()
      least = Cast<to = 11>(zero)
      h = MatMul(z, W)
      a = Add(h, s)
      sum = ReduceSum<keepdims = 0>(a)
      up = Greater(sum, least)
      u = If(up) <
        then_branch = then () => (double[2] p) { p = Tanh(a) },
        else_branch = other () => (double[2] q) { q = Sin(a) }
      >
    }>
  }>
}"""


@pytest.mark.parametrize("memory", ["keep", "checkpoint"])
def test_in_a_loop_and_with_a_branch(memory: Any) -> None:
    """An implicit step of time; loops inside of loops have no residual among the outputs."""
    inputs = {"x": np.array([0.5, -0.25]), "W": W[:2, :2]}
    loops = {"t": implicit("z", **EXACT)}
    assert_as_unrolled(IN_A_LOOP, "y", ["x", "W"], inputs, loops)
    model = vjp(parse(IN_A_LOOP), "y", ["x"], implicit=loops, memory=memory)
    assert names(model) == {"y": "y_grad", "x": "x_grad"}
    feeds = {**inputs, "y_grad": np.array([1.0, 2.0])}
    expected = compile(vjp(parse(IN_A_LOOP), "y", ["x"]))(feeds)["x_grad"]
    np.testing.assert_allclose(compile(model)(feeds)["x_grad"], expected, rtol=1e-9)


IN_A_BRANCH = """(bool up, double[2] x) => (double[2] y) {
  y = If(up) <
    then_branch = then () => (double[2] p) {
      many = Constant<value_int = 90>()
      p = Loop(many, , x) <body = b (int64 i, bool c, double[2] z) => (bool d, double[2] u) {
        d = Identity(c)
        s = Cos(z)
        u = Mul(s, x)
      }>
    },
    else_branch = other () => (double[2] q) { q = Sin(x) }
  >
}"""


@pytest.mark.parametrize("up", [True, False])
def test_in_a_branch(up: bool) -> None:
    inputs = {"up": up, "x": np.array([0.5, 0.75])}
    assert_as_unrolled(IN_A_BRANCH, "y", ["x"], inputs, {"Loop": implicit("z", **EXACT)})


def test_the_number_of_the_trip_is_the_last_one() -> None:
    """Steps that become smaller end at the same solution."""
    text = """(double[2] x) => (double[2] y) {
      n = Constant<value_int = 400>()
      y = Loop(n, , x) <body = b (int64 i, bool c, double[2] z) => (bool d, double[2] u) {
        d = Identity(c)
        f = Cast<to = 11>(i)
        two = Constant<value_float = 2.0>()
        t = Cast<to = 11>(two)
        g = Add(f, t)
        k = Sqrt(g)
        cosine = Cos(z)
        goal = Mul(cosine, x)
        m = Sub(goal, z)
        s = Div(m, k)
        u = Add(z, s)
      }>
    }"""
    model = parse(text)
    feeds = {"x": np.array([0.5, 0.75]), "y_grad": np.array([1.0, 2.0])}
    loops = {"y": implicit("z", tolerance=1e-13, trips=10_000)}
    runs = [compile(vjp(model, "y", "x", implicit=each))(feeds) for each in (loops, None)]
    np.testing.assert_allclose(runs[0]["x_grad"], runs[1]["x_grad"], rtol=1e-9)


def test_choices_in_the_body_let_no_number_out_that_is_none() -> None:
    text = """(double[2] x) => (double[2] y) {
      n = Constant<value_int = 60>()
      y = Loop(n, , x) <body = b (int64 i, bool c, double[2] z) => (bool d, double[2] u) {
        d = Identity(c)
        none = Sub(z, z)
        large = Greater(x, none)
        root = Log(x)
        part = Where(large, root, none)
        s = Sin(z)
        half = Constant<value_float = 0.5>()
        k = Cast<to = 11>(half)
        h = Mul(s, k)
        u = Add(h, part)
      }>
    }"""
    feeds = {"x": np.array([0.0, 0.75]), "y_grad": np.array([1.0, 2.0])}
    runs = [
        compile(vjp(parse(text), "y", "x", implicit=each))(feeds)
        for each in ({"y": implicit("z", **EXACT)}, None)
    ]
    np.testing.assert_allclose(runs[0]["x_grad"], runs[1]["x_grad"], rtol=1e-9, atol=1e-15)


def test_a_scan_is_an_iteration_if_it_reads_no_row() -> None:
    text = """(double[2] x, double[90] count) => (double[2] y) {
      y = Scan<num_scan_inputs = 1, body = b (double[2] z, double k) => (double[2] u) {
        s = Cos(z)
        u = Mul(s, x)
      }>(x, count)
    }"""
    inputs = {"x": np.array([0.5, 0.75])}
    assert_as_unrolled(text, "y", ["x"], inputs, {"y": implicit("z", **EXACT)})


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.FLOAT16])
def test_other_types(dtype: ir.DataType) -> None:
    text = DEQ.replace("double", dtype.name.lower()).replace("= 11", f"= {int(dtype)}")
    model = vjp(parse(text), "y", "x", implicit={"y": "z"})
    seed = np.array([1.0, -2.0, 0.5])
    feeds = {"x": X, "W": W, "tol": 2e-3, "y_grad": seed}
    given = {name: np.asarray(value, dtype.numpy()) for name, value in feeds.items()}
    exact = compile(vjp(parse(DEQ), "y", "x"))({**AT, "y_grad": seed})
    rounding = 5e-3 if dtype == ir.DataType.FLOAT16 else 2e-3
    np.testing.assert_allclose(compile(model)(given)["x_grad"], exact["x_grad"], rtol=rounding)


def test_the_mark_outlives_a_file(tmp_path: Any) -> None:
    model = vjp(parse(DEQ), "y", "x", implicit={"y": implicit("z", **EXACT)})
    save(model, tmp_path / "g.onnx")
    again = vjp(load(tmp_path / "g.onnx"), "x_grad", "x")
    assert not any(view.scan_outputs for view in map(loop_view, filter(is_loop, walk(again.graph))))


def body(result: str, **loop: str) -> str:
    outputs = loop.get("outputs", "y, t, s")
    return f"""(int64 M, float[2] x, float[2] p0) => (float[2] y, float[2] t, float[T,2] s) {{
      {outputs} = Loop(M, , x, p0)
        <body = b (int64 i, bool c, float[2] z, float[2] p)
          => (bool d, float[2] u, float[2] q, float[2] row) {{
        d = Identity(c)
        q = Sin(p)
        u = {result}
        row = Cos(z)
      }}>
    }}"""


ITERATION = "Loop 'Loop' is an iteration of 'z' to a solution"


@pytest.mark.parametrize(
    ("text", "of", "expected"),
    [
        (
            body("Mul(z, p)"),
            "y",
            f"{ITERATION}, but 'u' depends on 'p', which changes from trip to trip. Carry both as "
            "one tensor, or leave the loop out of implicit=.",
        ),
        (
            body("Cos(z)"),
            "t",
            f"{ITERATION}, but 'q' depends on 'p', which changes from trip to trip. Carry both as "
            "one tensor, or leave the loop out of implicit=.",
        ),
        (
            body("Cos(z)"),
            "s",
            f"{ITERATION}, of which the way there is no part: its stack 's' has no gradient. "
            "Differentiate what it carries, or leave the loop out of implicit=.",
        ),
        (
            body("Mul(z, noise) noise = RandomNormal<shape = [2]>()"),
            "y",
            f"{ITERATION}, but node 'RandomNormal' (RandomNormal) draws random numbers in every "
            "trip, so that there is none. Draw before the loop, or leave the loop out of "
            "implicit=.",
        ),
    ],
)
def test_what_is_no_solution_is_refused(text: str, of: str, expected: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        vjp(parse(text), of, ["x", "p0"], implicit={"y": "z"})
    assert str(error.value) == expected


def test_what_grows_is_refused() -> None:
    text = """(int64 M, float[2] x) => (float[N] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[K] z) => (bool d, float[L] u) {
        d = Identity(c)
        u = Concat<axis = 0>(z, x)
      }>
    }"""
    with pytest.raises(UnsupportedError) as error:
        vjp(parse(text), "y", "x", implicit={"y": "z"})
    assert re.sub(r"_d\d+", "K", str(error.value)) == (
        "Carried value 'z' of loop 'Loop' changes its shape from trip to trip (FLOAT[2] to "
        "FLOAT[K + 2]), so that there is no solution: leave the loop out of implicit=."
    )


def test_rows_that_are_read_are_refused() -> None:
    text = """(float[2] x, float[T,2] a) => (float[2] y) {
      y = Scan<num_scan_inputs = 1, body = b (float[2] z, float[2] k) => (float[2] u) {
        u = Mul(z, k)
      }>(x, a)
    }"""
    with pytest.raises(UnsupportedError) as error:
        vjp(parse(text), "y", "x", implicit={"y": "z"})
    assert str(error.value) == (
        "Loop 'Scan' is an iteration of 'z' to a solution, but 'u' depends on 'k', which changes "
        "from trip to trip. Carry both as one tensor, or leave the loop out of implicit=."
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"implicit": {"w": "z"}},
            "implicit= names 'w', but no loop of the model has that name or an output of that "
            "name; there are 3: 'Loop', 'y', 'last'",
        ),
        (
            {"implicit": {"y": "zz"}},
            "implicit= names 'zz', but loop 'Loop' carries no such value; did you mean 'z'?",
        ),
        (
            {"implicit": {"y": "z"}, "memory": {"Loop": "keep"}},
            "memory= and implicit= both name loop 'Loop', whose trips have no part in its gradient "
            "at the solution: leave it out of one of them.",
        ),
        (
            {"implicit": {"y": "z"}, "truncate": {"y": 3}},
            "truncate= and implicit= both name loop 'Loop', whose trips have no part in its "
            "gradient at the solution: leave it out of one of them.",
        ),
    ],
)
def test_wrong_calls(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        vjp(parse(DEQ), "y", "x", **arguments)
    assert str(error.value) == expected


def test_whole_numbers_are_no_solution() -> None:
    text = """(int64 M, float[2] x) => (float[2] y) {
      zero = Constant<value_int = 0>()
      y, n = Loop(M, , x, zero)
        <body = b (int64 i, bool c, float[2] z, int64 k) => (bool d, float[2] u, int64 m) {
        d = Identity(c)
        u = Cos(z)
        m = Add(k, i)
      }>
    }"""
    with pytest.raises(ArgumentError) as error:
        vjp(parse(text), "y", "x", implicit={"y": "k"})
    assert str(error.value) == (
        "implicit= names 'k' of loop 'Loop', which is INT64[]: only a tensor of floats is iterated "
        "to a solution. Name another one."
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"tolerance": -1.0}, "implicit(tolerance=-1.0): give a number from 0 on."),
        ({"trips": 0}, "implicit(trips=0): give a whole number from 1 on."),
    ],
)
def test_wrong_numbers(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        implicit("z", **arguments)
    assert str(error.value) == expected
