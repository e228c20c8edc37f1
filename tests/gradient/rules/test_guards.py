"""The zero cotangent of what was not chosen must not meet an infinite slope."""

import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp

MASK = "zero = Constant<value_float = 0.0>() one = Constant<value_float = 1.0>()"


@pytest.mark.parametrize(
    ("call", "bad", "good", "slope"),
    [
        ("Log(x)", [0, -1], 0.5, 2),
        ("Sqrt(x)", [0, -1], 0.25, 1),
        ("Reciprocal(x)", [0], 0.5, -4),
        ("Div(one, x)", [0], 0.5, -4),
        ("Div(x, x)", [0], 0.5, 0),
        ("Pow(x, half)", [0, -1], 0.25, 1),
        ("Pow(x, x)", [0, -1], 1, 1),
        ("Exp(x)", [1000, np.inf], 0, 1),
        ("Sinh(x)", [1000], 0, 1),
        ("Cosh(x)", [1000], 0, 0),
        ("Mul(x, e)", [1000], 0, 1),
        ("Sin(r)", [0], 1, -np.cos(1)),
        ("Max(l, zero)", [-1], 2, 0.5),
        ("Min(zero, l)", [-1], 0.5, 2),
        ("Gelu(r)", [0], -1, 0.0833155),
        ("Mish(r)", [0], 1, -1.0490363),
        ("Softplus(r)", [0], 1, -1 / (1 + np.exp(-1))),
        ("Asin(x)", [1, 2], 0, 1),
        ("Acos(x)", [1, -2], 0, -1),
        ("Acosh(x)", [1, 0], 1.25, 1 / 0.75),
        ("Atanh(x)", [1, 2], 0, 1),
    ],
)
def test_elements_that_are_not_chosen(call, bad, good, slope):
    model = f"""(float[N] x, bool[N] c) => (float[N] y) {{
      {MASK} half = Constant<value_float = 0.5>()
      e = Exp(x) r = Div(one, x) l = Log(x)
      f = {call}
      y = Where(c, f, zero)
    }}"""
    x = np.array([*bad, good], np.float32)
    got = gradients(model, {"x": x, "c": x == np.float32(good)}, 3)
    np.testing.assert_allclose(got["x"], [*([0] * len(bad)), 3 * slope], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", ["Softmax(x)", "LogSoftmax(x)"])
def test_rows_that_are_not_chosen(call):
    """As in attention, where a row without any key is no number and becomes 0."""
    x = np.array([[0.5, 1, -1], [-np.inf, -np.inf, -np.inf]], np.float32)
    model = f"""(float[2,3] x, bool[2,1] c) => (float[2,3] y) {{
      {MASK} f = {call} y = Where(c, f, zero)
    }}"""
    got = gradients(model, {"x": x, "c": np.array([[True], [False]])}, [[1], [2]])
    alone = gradients(f"(float[1,3] x) => (float[1,3] y) {{ y = {call} }}", {"x": x[:1]})
    np.testing.assert_allclose(got["x"], [alone["x"][0], [0, 0, 0]], atol=1e-7)


@pytest.mark.parametrize("call", ["ReduceLogSum(x, a)", "ReduceLogSumExp(x, a)"])
def test_sums_that_are_not_chosen(call):
    bad = 0 if call.startswith("ReduceLogSum(") else -np.inf
    x = np.array([[0.5, 1], [bad, bad]], np.float32)
    model = f"""(float[2,2] x, bool[2,1] c) => (float[2,1] y) {{
      {MASK} a = Constant<value_ints = [1]>() f = {call} y = Where(c, f, zero)
    }}"""
    got = gradients(model, {"x": x, "c": np.array([[True], [False]])})
    weights = np.exp(x[0]) if bad else np.ones(2)
    total = np.sum(weights) if bad else np.sum(x[0])
    np.testing.assert_allclose(got["x"], [weights / total, [0, 0]], rtol=1e-6)


def test_largest_elements_that_are_not_chosen():
    model = f"""(float[2,2] x, bool[2,1] c) => (float[2,1] y) {{
      {MASK} a = Constant<value_ints = [1]>() l = Log(x) f = ReduceMax(l, a) y = Where(c, f, zero)
    }}"""
    x = np.array([[0.25, 0.5], [-1, -1]], np.float32)
    got = gradients(model, {"x": x, "c": np.array([[True], [False]])})
    np.testing.assert_allclose(got["x"], [[0, 2], [0, 0]])


CALLS = [
    "Exp(x)",
    "Log(x)",
    "Sqrt(x)",
    "Reciprocal(x)",
    "Div(half, x)",
    "Pow(x, half)",
    "Pow(x, x)",
    "Asin(x)",
    "Acosh(o)",
    "Cosh(x)",
    "Mul(x, e)",
    "Softmax(x)",
    "LogSoftmax(x)",
    "ReduceLogSumExp(x)",
]


@pytest.mark.parametrize("call", CALLS)
def test_cotangents_that_are_zero_by_chance(call):
    """The second derivative of a sum of squares where all of them are 0, as at a perfect fit.

    The first is 0 there, of which differences make out no more than a kink.
    """
    model = f"""(float[2] x, bool[2] c, float[2] t) => (float[2] y, float[2] z) {{
      {MASK} half = Constant<value_float = 0.5>() e = Exp(x) o = Add(x, one)
      f = {call} z = Where(c, f, zero) r = Sub(z, t) y = Mul(r, r)
    }}"""
    feeds = {"x": np.array([0.5, 0.75], np.float32), "c": np.array([True, True])}
    feeds["t"] = compile(parse(model))({**feeds, "t": np.zeros(2, np.float32)})["z"]
    assert_gradient(model, ["y"], ["x"], feeds, second_order=True, kinks=True)


def test_second_derivatives_are_guarded_as_well():
    model = f"""(float[2] x) => (float[2] y) {{
      {MASK} c = Greater(x, zero) f = Log(x) y = Where(c, f, zero)
    }}"""
    first = vjp(parse(model), of="y", wrt="x")
    second = vjp(first, of="x_grad", wrt="x")
    ones = np.ones(2, np.float32)
    run = compile(second)
    got = run(x=np.array([0, 0.5], np.float32), y_grad=ones, x_grad_grad=ones)
    np.testing.assert_allclose(got["x_grad_1"], [0, -4])


def test_a_choice_after_a_loop_guards_what_is_inside():
    model = """(float[2] x, int64 n) => (float[2] y) {
      zero = Constant<value_float = 0.0>()
      r = Loop(n, "", x) <body = trip (int64 i, bool go, float[2] v) => (bool on, float[2] w) {
        on = Identity(go)
        w = Sqrt(v)
      }>
      c = Greater(x, zero)
      y = Where(c, r, zero)
    }"""
    got = gradients(model, {"x": [0, 1], "n": np.array(2)})
    np.testing.assert_allclose(got["x"], [0, 0.25])


def test_without_a_choice_nothing_is_added():
    model = "(float[2] x) => (float[2] y) { y = Log(x) }"
    assert "Where" not in [node.op_type for node in vjp(parse(model), of="y", wrt="x").graph]


@pytest.mark.parametrize(
    ("call", "off", "on"),
    [
        ("Relu(x)", -1, 4),
        ("ThresholdedRelu<alpha = 0.5>(x)", 0.25, 4),
        ("Clip(x, zero)", -1, 4),
        ("HardSigmoid<alpha = 1.0, beta = 0.0>(x)", -1, 0.25),
    ],
)
def test_infinite_cotangents_of_what_is_not_chosen(call, off, on):
    """The slope of the root is infinite at 0, but moving x changes nothing there."""
    model = f"""(float[N] x) => (float[N] y) {{ {MASK} f = {call} y = Sqrt(f) }}"""
    got = gradients(model, {"x": np.array([off, on], np.float32)})["x"]
    np.testing.assert_allclose(got, [0, 0.5 / np.sqrt(on)], rtol=1e-6)


def test_an_infinity_stays_where_it_is_chosen():
    model = f"""(float[N,2] x, float[2,2] w) => (float[N,2] y) {{
      {MASK} f = Relu(x) g = MatMul(f, w) y = Log(g)
    }}"""
    x, w = np.array([[1, -1]], np.float32), np.array([[0, 1], [1, 1]], np.float32)
    got = gradients(model, {"x": x, "w": w})
    assert np.isnan(got["x"][0, 0])
    assert np.isinf(got["w"][0, 0])
