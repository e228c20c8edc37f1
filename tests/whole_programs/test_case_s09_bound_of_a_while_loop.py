"""Conformance case S9: the bound of a while loop that ends before it changes nothing."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(int64 bound, float[2] x, float[2] w) => (float[2] y, int64 trips) {
  zero = Constant<value = int64 {0}>()
  one = Constant<value = int64 {1}>()
  seven = Constant<value = int64 {7}>()
  y, trips = Loop(%s, , x, zero) <body = body (int64 i, bool c, float[2] v, int64 k)
      => (bool go, float[2] u, int64 next) {
    a = Mul(v, w)
    u = Sin(a)
    next = Add(k, one)
    go = Less(next, seven)
  }>
}"""
AT = {"x": [0.5, -1.5], "w": [1.25, 0.75]}


def by_hand(seed):
    """Seven trips of v ← sin(v·w)."""
    w, values = np.array(AT["w"]), [np.array(AT["x"])]
    for _ in range(7):
        values.append(np.sin(values[-1] * w))
    dv, dw = np.array(seed, float), np.zeros(2)
    for value in reversed(values[:-1]):
        slope = dv * np.cos(value * w)
        dv, dw = slope * w, dw + slope * value
    return values[-1], dv, dw


@pytest.mark.parametrize("seed", [[1, 1], [0.5, -3]])
def test_bounds(seed):
    y, dx, dw = by_hand(seed)
    f = pullback(MODEL % "bound", "y", "x w")
    for bound in (7, 8, 10, 16, 1000, 2**62):
        outputs = f(AT, bound=bound, y_grad=seed)
        assert_numbers(outputs, trips=7, y=y, x_grad=dx, w_grad=dw)


def test_same_bits_for_every_bound_and_for_none():
    results = [pullback(MODEL % "", "y", "x w")(AT, bound=0, y_grad=[0.5, -3])]
    f = pullback(MODEL % "bound", "y", "x w")
    results += [f(AT, bound=bound, y_grad=[0.5, -3]) for bound in (7, 10, 16, 1000)]
    for name in ("x_grad", "w_grad"):
        assert len({outputs[name].tobytes() for outputs in results}) == 1


@pytest.mark.parametrize("bound", [0, 3, 7, 1000])
def test_against_finite_differences(bound):
    assert_gradient(MODEL % "bound", ["y"], ["x", "w"], {"bound": bound, **AT}, second_order=True)
