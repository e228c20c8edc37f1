"""The zero cotangent of what was not chosen must not meet an infinite slope."""

import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import parse

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
        ("Asin(x)", [1, 2], 0, 1),
        ("Acos(x)", [1, -2], 0, -1),
        ("Acosh(x)", [1, 0], 1.25, 1 / 0.75),
        ("Atanh(x)", [1, 2], 0, 1),
    ],
)
def test_elements_that_are_not_chosen(call, bad, good, slope):
    model = f"""(float[N] x, bool[N] c) => (float[N] y) {{
      {MASK} half = Constant<value_float = 0.5>()
      f = {call}
      y = Where(c, f, zero)
    }}"""
    x = np.array([*bad, good], np.float32)
    got = gradients(model, {"x": x, "c": x == np.float32(good)}, 3)
    np.testing.assert_allclose(got["x"], [*([0] * len(bad)), 3 * slope], rtol=1e-5, atol=1e-6)


def test_second_derivatives_are_guarded_as_well():
    model = f"""(float[2] x) => (float[2] y) {{
      {MASK} c = Greater(x, zero) f = Log(x) y = Where(c, f, zero)
    }}"""
    first = vjp(parse(model), of="y", wrt="x")
    second = vjp(first, of="x_grad", wrt="x")
    from whileback.engines import compile

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
