"""Conformance case 6: a loop that ends before its limit."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

STOPS_AT_ONCE = """(float[1] x) => (float[1] y, float[T,1] rows) {
  five = Constant<value = int64 {5}>()
  two = Constant<value = float {2}>()
  y, rows = Loop(five, , x) <body = body (int64 i, bool c, float[1] v)
      => (bool go, float[1] u, float[1] row) {
    u = Mul(v, two)
    row = Identity(u)
    go = Constant<value = bool {0}>()
  }>
}"""
COMPOUND = """(float w0) => (float w, int64 k) {
  zero = Constant<value = int64 {0}>()
  one = Constant<value = int64 {1}>()
  ten = Constant<value = int64 {10}>()
  small = Constant<value = float {0.1}>()
  two = Constant<value = float {2}>()
  start = Greater(w0, small)
  w, k = Loop(, start, w0, zero) <body = body (int64 i, bool c, float v, int64 j)
      => (bool go, float u, int64 next) {
    u = Div(v, two)
    next = Add(j, one)
    large = Greater(u, small)
    few = Less(next, ten)
    go = And(large, few)
  }>
}"""


def test_one_trip_of_five():
    f = pullback(STOPS_AT_ONCE, "y", "x")
    assert_numbers(f(x=[2], y_grad=[1]), y=[4], rows=[[4]], x_grad=[2])
    assert_numbers(f(x=[2], y_grad=[-0.5]), x_grad=[-1])
    f = pullback(STOPS_AT_ONCE, "y rows", "x")
    assert_numbers(f(x=[2], y_grad=[1], rows_grad=[[1]]), x_grad=[4])
    assert_numbers(f(x=[2], y_grad=[1], rows_grad=[[10]]), x_grad=[22])


def test_compound_condition_without_a_limit():
    f = pullback(COMPOUND, "w", "w0")
    assert_numbers(f(w0=1, w_grad=1), w=0.0625, k=4, w0_grad=1 / 16)
    assert_numbers(f(w0=1, w_grad=-8), w0_grad=-0.5)
    assert_numbers(f(w0=0.05, w_grad=1), w=0.05, k=0, w0_grad=1)
    assert_numbers(f(w0=1e6, w_grad=1), w=1e6 / 1024, k=10, w0_grad=1 / 1024)


LOOP = """(int64 n, float bound, float[N] x, float[N] w) => (float[N] y, float[T,N] rows) {
  yes = Constant<value = bool {1}>()
  y, rows = Loop(%s, %s, x) <body = body (int64 i, bool c, %s v)
      => (bool go, %s u, %s row) {
    u = Mul(v, w)
    row = Sin(u)
    total = ReduceSum<keepdims = 0>(u)
    go = Less(total, bound)
  }>
}"""


@pytest.mark.parametrize("declared", ["float[N]", "float[]"])
@pytest.mark.parametrize(("limit", "start"), [("n", "yes"), ("n", ""), ("", "yes"), ("", "")])
@pytest.mark.parametrize("bound", [0.0, 9.0, 40.0])
def test_trips_that_the_values_decide(declared, limit, start, bound):
    inputs = {"n": 9, "bound": bound, "x": [0.5, 1, 0.25], "w": [2, 1.5, 1.75]}
    model = LOOP % (limit, start, *[declared] * 3)
    assert_gradient(model, ["y", "rows"], ["x", "w"], inputs)


@pytest.mark.parametrize(("n", "bound"), [(2, 100), (9, 9), (9, -1), (0, 9)])
def test_second_order(n, bound):
    inputs = {"n": n, "bound": bound, "x": [0.5, 1], "w": [2, 1.5]}
    model = LOOP % ("n", "yes", *["float[N]"] * 3)
    assert_gradient(model, ["y", "rows"], ["x", "w"], inputs, second_order=True)


def test_boolean_and_integer_state_decide():
    model = """(bool[K] stops, float[N] x)
        => (float[N] y, bool last, int64 count, float[T,N] rows) {
      zero = Constant<value = int64 {0}>()
      one = Constant<value = int64 {1}>()
      no = Constant<value = bool {0}>()
      size = Size(stops)
      y, last, count, rows = Loop(size, , x, no, zero) <body = body
          (int64 i, bool c, float[N] v, bool before, int64 k)
          => (bool go, float[N] u, bool stop, int64 next, float[N] row) {
        stop = Gather(stops, i)
        changed = Xor(before, stop)
        next = Add(k, one)
        factor = Cast<to = 1>(next)
        a = Mul(v, factor)
        u = Sin(a)
        row = Where(changed, u, v)
        go = Not(stop)
      }>
    }"""
    for stops in ([0, 0, 1, 0, 0], [1, 0], [0, 0, 0], []):
        inputs = {"stops": np.array(stops, bool), "x": [0.5, 1.5]}
        assert_gradient(model, ["y", "rows"], ["x"], inputs, second_order=len(stops) == 5)


def test_exit_inside_an_exit():
    model = """(float[2] x, float[2] w, float bound) => (float[2] y) {
      yes = Constant<value = bool {1}>()
      y = Loop(, yes, x) <body = outer (int64 i, bool c, float[2] v) => (bool go, float[2] u) {
        u = Loop(, yes, v) <body = inner (int64 j, bool d, float[2] a) => (bool on, float[2] b) {
          b = Mul(a, w)
          t = ReduceMax<keepdims = 0>(b)
          i1 = Cast<to = 1>(i)
          limit = Mul(bound, i1)
          on = Less(t, limit)
        }>
        s = ReduceSum<keepdims = 0>(u)
        go = Less(s, bound)
      }>
    }"""
    inputs = {"x": [0.5, 0.25], "w": [1.25, 1.5], "bound": 6}
    assert_gradient(model, ["y"], ["x", "w"], inputs)
