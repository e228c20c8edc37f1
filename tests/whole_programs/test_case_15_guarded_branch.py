"""Conformance case 15: what a branch guards against does not happen in the gradient either."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.engines import compile
from whileback.gradient import vjp

MODEL = """(float x) => (float y) {
  zero = Constant<value = float {0}>()
  positive = Greater(x, zero)
  y = If(positive) <
    then_branch = yes () => (float a) { a = %s(x) },
    else_branch = no () => (float b) { b = Constant<value = float {0}>() }>
}"""


def test_log():
    f = pullback(MODEL % "Log", "y", "x")
    assert_numbers(f(x=0, y_grad=1), y=0, x_grad=0)
    assert_numbers(f(x=2, y_grad=1), y=np.log(2), x_grad=0.5)
    assert_numbers(f(x=2, y_grad=-3), x_grad=-1.5)
    assert_numbers(f(x=-1, y_grad=-3), y=0, x_grad=0)


@pytest.mark.parametrize("op", ["Log", "Sqrt", "Reciprocal"])
def test_nothing_leaks_from_the_branch_not_taken(op):
    f = pullback(MODEL % op, "y", "x")
    for x in (0.0, -2.0, -np.inf, np.nan):
        for seed in (1.0, -0.75):
            assert_numbers(f(x=x, y_grad=seed), y=0, x_grad=0)


@pytest.mark.parametrize("op", ["Log", "Sqrt", "Reciprocal"])
def test_second_order(op):
    assert_gradient(MODEL % op, ["y"], ["x"], {"x": 2.5}, second_order=True)
    twice = compile(vjp(vjp(parse(MODEL % op), ["y"], ["x"]), ["x_grad"], ["x", "y_grad"]))
    for x in (0.0, -1.25):
        outputs = twice(x=x, y_grad=1, x_grad_grad=3)
        assert_numbers(outputs, x_grad=0, x_grad_1=0, y_grad_grad=0)


IN_A_LOOP = """(float[T] rows, float start) => (float y, float[T] all) {
  zero = Constant<value = float {0}>()
  y, all = Scan(start, rows) <num_scan_inputs = 1,
    body = body (float sum, float r) => (float next, float out) {
      positive = Greater(r, zero)
      s = If(positive) <
        then_branch = yes () => (float a) { l = Log(r) q = Sqrt(r) a = Div(l, q) },
        else_branch = no () => (float b) { b = Constant<value = float {0}>() }>
      next = Add(sum, s)
      out = Mul(next, s)
    }>
}"""


def test_in_a_loop():
    rows = [2.0, -1.0, 0.5, -3.0]
    assert_gradient(IN_A_LOOP, ["y", "all"], ["rows", "start"], {"rows": rows})
    f = pullback(IN_A_LOOP, "y", "rows")
    outputs = f(rows=[2, 0, -1, 1], start=0, y_grad=2)
    slope = (1 - np.log(2) / 2) / 2**1.5
    assert_numbers(outputs, rows_grad=[2 * slope, 0, 0, 2])


def test_masked_by_where():
    """Where chooses after both sides are computed: their slopes must not meet 0 · inf."""
    model = """(float[N] x) => (float[N] y) {
      zero = Constant<value = float {0}>()
      one = Constant<value = float {1}>()
      positive = Greater(x, zero)
      safe = Where(positive, x, one)
      l = Log(safe)
      y = Where(positive, l, zero)
    }"""
    f = pullback(model, "y", "x")
    assert_numbers(f(x=[0, 2, -1], y_grad=[1, 3, 5]), y=[0, np.log(2), 0], x_grad=[0, 1.5, 0])
