"""Conformance case 2: an outer value that every trip reads, and a trip count given at run time."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(int64 n, float x) => (float y) {
  one = Constant<value = float {1}>()
  y = Loop(n, , one) <body = body (int64 i, bool c, float acc) => (bool go, float next) {
    go = Identity(c)
    next = %s(acc, x)
  }>
}"""
WEIGHTS = """(int64 n, float[%(v)s] x, float[%(w)s] w, float[%(b)s] b) => (float[%(v)s] y) {
  y = Loop(n, , x) <body = body (int64 i, bool c, float[%(v)s] v) => (bool go, float[%(v)s] next) {
    go = Identity(c)
    p = MatMul(v, w)
    q = Add(p, b)
    next = Tanh(q)
  }>
}"""


def test_one_file_serves_every_trip_count():
    f = pullback(MODEL % "Mul", "y", "x")
    for n, y, dx in [(2, 0.25, 1.0), (3, 0.125, 0.75), (0, 1.0, 0.0), (1, 0.5, 1.0)]:
        assert_numbers(f(n=n, x=0.5, y_grad=1), y=y, x_grad=dx)
        assert_numbers(f(n=n, x=0.5, y_grad=-1.5), y=y, x_grad=-1.5 * dx)


def test_division():
    f = pullback(MODEL % "Div", "y", "x")
    for n, y, dx in [(3, 8, -48), (0, 1, 0), (1, 2, -4)]:
        assert_numbers(f(n=n, x=0.5, y_grad=1), y=y, x_grad=dx)
        assert_numbers(f(n=n, x=0.5, y_grad=0.25), y=y, x_grad=dx / 4)


@pytest.mark.parametrize("op", ["Mul", "Div", "Add", "Sub", "Pow"])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_other_operators(op, n):
    nonlinear = op not in ("Add", "Sub")
    assert_gradient(MODEL % op, ["y"], ["x"], {"n": n, "x": 0.875}, second_order=nonlinear)


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize(
    ("dims", "shapes"),
    [
        ({"v": "2,3", "w": "3,3", "b": "3"}, ((2, 3), (3, 3), (3,))),
        ({"v": "N,3", "w": "3,3", "b": "1"}, ((4, 3), (3, 3), (1,))),
        ({"v": "N,D", "w": "D,D", "b": "D"}, ((2, 3), (3, 3), (3,))),
        ({"v": "D", "w": "D,D", "b": "D"}, ((3,), (3, 3), (3,))),
        ({"v": "1,2,3", "w": "3,3", "b": "2,1"}, ((1, 2, 3), (3, 3), (2, 1))),
    ],
)
def test_weights(n, dims, shapes):
    rng = np.random.default_rng(2)
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    inputs = {"n": n, "x": x, "w": w, "b": b}
    assert_gradient(WEIGHTS % dims, ["y"], ["x", "w", "b"], inputs)


def test_weights_at_zero_trips_get_zeros_of_their_own_shape():
    f = pullback(WEIGHTS % {"v": "N,D", "w": "D,D", "b": "B"}, "y", "x w b")
    x, w, b = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32), np.ones(1, np.float32)
    outputs = f(n=0, x=x, w=w, b=b, y_grad=2 * x)
    assert_numbers(outputs, x_grad=2 * x, w_grad=np.zeros((3, 3)), b_grad=np.zeros(1))


def test_value_captured_by_two_loops_and_read_outside():
    model = """(int64 n, float[3] x, float[3] w) => (float[3] y) {
      a = Loop(n, , x) <body = first (int64 i, bool c, float[3] v) => (bool go, float[3] u) {
        go = Identity(c)
        u = Mul(v, w)
      }>
      b = Loop(n, , a) <body = second (int64 i, bool c, float[3] v) => (bool go, float[3] u) {
        go = Identity(c)
        s = Sin(w)
        u = Add(v, s)
      }>
      y = Mul(b, w)
    }"""
    assert_gradient(model, ["y"], ["w", "x"], {"n": 3}, second_order=True)
