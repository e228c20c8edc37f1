"""Conformance case 3: a float that decides when the loop ends, and is differentiated as well."""

import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(float i0, float x0) => (float x, float i) {
  three = Constant<value = float {3}>()
  one = Constant<value = float {1}>()
  start = Less(i0, three)
  i, x = Loop(, start, i0, x0) <body = body (int64 t, bool c, float j, float v)
      => (bool go, float k, float u) {
    u = Add(v, j)
    k = Add(j, one)
    go = Less(k, three)
  }>
}"""
BOUNDED = MODEL.replace("Loop(,", "Loop(n,").replace("(float i0", "(int64 n, float i0")
VECTORS = """(float i0, float[N] x0, float step) => (float[N] x) {
  three = Constant<value = float {3}>()
  start = Less(i0, three)
  i, x = Loop(, start, i0, x0) <body = body (int64 t, bool c, float j, float[N] v)
      => (bool go, float k, float[N] u) {
    a = Mul(v, j)
    u = Sin(a)
    k = Add(j, step)
    go = Less(k, three)
  }>
}"""


def test_both_trips_see_the_counter():
    f = pullback(MODEL, "x", "x0 i0")
    assert_numbers(f(i0=1, x0=1, x_grad=1), x=4, i=3, x0_grad=1, i0_grad=2)
    assert_numbers(f(i0=1.2, x0=1, x_grad=1), x=4.4, x0_grad=1, i0_grad=2)
    assert_numbers(f(i0=1.2, x0=1, x_grad=-3), x=4.4, x0_grad=-3, i0_grad=-6)


def test_seeds_on_both_results():
    f = pullback(MODEL, "x i", "x0 i0")
    assert_numbers(f(i0=1, x0=1, x_grad=10, i_grad=1), x0_grad=10, i0_grad=21)


@pytest.mark.parametrize("i0", [1.2, 2.5, 3.5, -1.7])
def test_other_trip_counts(i0):
    inputs = {"i0": i0, "x0": 0.75}
    assert_gradient(MODEL, ["x", "i"], ["i0", "x0"], inputs)


@pytest.mark.parametrize(("n", "trips"), [(0, 0), (1, 1), (2, 2), (9, 4)])
def test_the_limit_may_end_the_loop_first(n, trips):
    f = pullback(BOUNDED, "x", "x0 i0")
    assert_numbers(f(n=n, i0=-0.5, x0=1, x_grad=2), x0_grad=2, i0_grad=2 * trips)
    assert_gradient(BOUNDED, ["x"], ["i0", "x0"], {"n": n, "i0": -0.5})


@pytest.mark.parametrize("i0", [0.7, 4.0])
def test_the_step_is_differentiated(i0):
    inputs = {"i0": i0, "x0": [0.5, -1.0], "step": 0.4}
    assert_gradient(VECTORS, ["x"], ["x0", "i0", "step"], inputs, second_order=True)
