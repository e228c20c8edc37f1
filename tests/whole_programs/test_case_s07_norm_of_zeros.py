"""Conformance case S7: norms at zero, where their slope is zero by convention."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = "(float[%s] x) => (float[%s] y) { %s }"
AXIS = "axes = Constant<value = int64[1] {%d}>() y = %s<keepdims = %d>(x, axes)"


@pytest.mark.parametrize("op", ["ReduceL2", "ReduceL1"])
def test_zeros(op):
    model = (MODEL % ("3", "", f"y = {op}<keepdims = 0>(x)")).replace("float[] y", "float y")
    f = pullback(model, "y", "x")
    assert_numbers(f(x=[0, 0, 0], y_grad=1), y=0, x_grad=[0, 0, 0])
    assert_numbers(f(x=[0, 0, 0], y_grad=-7), y=0, x_grad=[0, 0, 0])
    right = np.array([3, 0, -4]) / 5 if op == "ReduceL2" else np.sign([3, 0, -4])
    assert_numbers(f(x=[3, 0, -4], y_grad=2), x_grad=2 * right)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("keep", [0, 1])
def test_one_row_of_zeros(axis, keep):
    out = "A,B" if keep else "A"
    f = pullback(MODEL % ("N,D", out, AXIS % (axis, "ReduceL2", keep)), "y", "x")
    x = np.float32([[0, 0, 0], [0, 3, 4]])
    seed = np.ones((1, 3) if axis == 0 else (2, 1), np.float32)
    outputs = f(x=x, y_grad=seed if keep else seed.ravel())
    right = [[0, 0, 0], [0, 1, 1]] if axis == 0 else [[0, 0, 0], [0, 0.6, 0.8]]
    assert_numbers(outputs, x_grad=right)


@pytest.mark.parametrize("axis", [0, 1])
def test_away_from_zero(axis):
    model = MODEL % ("N,D", "A", AXIS % (axis, "ReduceL2", 0))
    assert_gradient(model, ["y"], ["x"], second_order=True)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p):
    model = MODEL % ("N,D", "N,D", f"y = LpNormalization<p = {p}, axis = -1>(x)")
    outputs = pullback(model, "y", "x")(x=[[0, 0], [3, 4]], y_grad=[[1, 2], [1, 2]])
    assert np.isfinite(outputs["x_grad"]).all()
    assert_gradient(model, ["y"], ["x"], {"x": [[0.5, -1.5], [2, 0.25]]}, second_order=p == 2)


def test_norm_of_a_state_that_starts_at_zero():
    model = """(int64 n, float[2] x, float[2] w) => (float s) {
      zero = Constant<value = float {0}>()
      v, s = Loop(n, , x, zero) <body = body (int64 i, bool c, float[2] v, float t)
          => (bool go, float[2] u, float total) {
        go = Identity(c)
        norm = ReduceL2<keepdims = 0>(v)
        total = Add(t, norm)
        u = Add(v, w)
      }>
    }"""
    outputs = pullback(model, "s", "x w")(n=3, x=[0, 0], w=[3, 4], s_grad=1)
    # Norms of 0, w and 2w: dx = w/5 + w/5, dw = w/5 + 2·w/5.
    assert_numbers(outputs, s=15, x_grad=[1.2, 1.6], w_grad=[1.8, 2.4])
