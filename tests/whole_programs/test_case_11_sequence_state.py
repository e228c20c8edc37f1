"""Conformance case 11: a sequence as the state of a loop."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(float[2] x, float[2] w, int64 M) => (float[T,2] y) {
  s0 = SequenceEmpty()
  v, s = Loop(M, , x, s0)
    <body = b (int64 i, bool c, float[2] u, seq(float[2]) t)
      => (bool go, float[2] n, seq(float[2]) r) {
    go = Identity(c)
    n = Mul(u, w)
    r = SequenceInsert(t, n)
  }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""
SCAN_OUTPUT = """(float[2] x, float[2] w, int64 M) => (float[T,2] y) {
  v, y = Loop(M, , x)
    <body = b (int64 i, bool c, float[2] u) => (bool go, float[2] n, float[2] row) {
    go = Identity(c)
    n = Mul(u, w)
    row = Identity(n)
  }>
}"""
# The sequence is not empty before the loop, so that there may be no trip.
STARTED = MODEL.replace("SequenceEmpty()", "SequenceConstruct(w)")


def test_three_trips():
    f = pullback(MODEL, "y", "x w")
    x, w = np.array([1, 3], np.float32), np.array([0.5, 2], np.float32)
    outputs = f(x=x, w=w, M=3, y_grad=np.ones((3, 2), np.float32))
    assert_numbers(outputs, y=[x * w, x * w**2, x * w**3], x_grad=[0.875, 14], w_grad=[2.75, 51])


@pytest.mark.parametrize("trips", [1, 7, 4000])
def test_as_a_scan_output(trips):
    rng = np.random.default_rng(11)
    seed = rng.normal(size=(trips, 2)).astype(np.float32)
    inputs = {"x": [1, -0.5], "w": [0.999, -1.0002], "M": trips, "y_grad": seed}
    got, want = (pullback(text, "y", "x w")(inputs) for text in (MODEL, SCAN_OUTPUT))
    for name in ("y", "x_grad", "w_grad"):
        np.testing.assert_allclose(got[name], want[name], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_second_order(trips):
    inputs = {"x": [1, -0.5], "w": [0.9, -1.1], "M": trips}
    assert_gradient(STARTED, ["y"], ["x", "w"], inputs, second_order=True)
