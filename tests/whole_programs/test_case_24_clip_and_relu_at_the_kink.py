"""Conformance case 24: the bounds of Clip belong to its inside, the kink of Relu to its outside."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

CLIP = """(float[N] x, float low, float high) => (float[N] y) { y = Clip(x, %s) }"""
ATTRIBUTES = """<ir_version: 4, opset_import: ["" : %d]>
model (float[6] x) => (float[6] y) { y = Clip<min = 1.0, max = 4.0>(x) }"""
RELU = "(float[3] x) => (float[3] y) { y = Relu(x) }"
X = [0, 1, 2, 3, 4, 5]


def test_clip_at_its_bounds():
    f = pullback(CLIP % "low, high", "y", "x")
    outputs = f(x=X, low=1, high=4, y_grad=[1] * 6)
    assert_numbers(outputs, y=[1, 1, 2, 3, 4, 4], x_grad=[0, 1, 1, 1, 1, 0])
    outputs = f(x=X, low=1, high=4, y_grad=[1, 2, 4, 8, 16, 32])
    assert_numbers(outputs, x_grad=[0, 2, 4, 8, 16, 0])


@pytest.mark.parametrize(
    ("bounds", "dx"),
    [(", high", [1, 1, 1, 1, 1, 0]), ("low", [0, 1, 1, 1, 1, 1]), ("", [1, 1, 1, 1, 1, 1])],
)
def test_missing_bounds(bounds, dx):
    f = pullback((CLIP % bounds).replace("(x, )", "(x)"), "y", "x")
    assert_numbers(f(x=X, low=1, high=4, y_grad=[1] * 6), x_grad=dx)


def test_low_above_high():
    """All of y is `high`, as the specification says."""
    f = pullback(CLIP % "low, high", "y", "x low high")
    outputs = f(x=X, low=3.5, high=1.5, y_grad=[1, 2, 4, 8, 16, 32])
    assert_numbers(outputs, y=[1.5] * 6, x_grad=[0] * 6, low_grad=0, high_grad=63)


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_bounds_as_attributes(opset):
    f = pullback(ATTRIBUTES % opset, "y", "x")
    assert_numbers(f(x=X, y_grad=[1, 2, 4, 8, 16, 32]), x_grad=[0, 2, 4, 8, 16, 0])


def test_bounds_get_the_gradient_of_what_they_cut():
    inputs = {"x": [0, 2, 5, 6, -3], "low": 1, "high": 4}
    assert_gradient(CLIP % "low, high", ["y"], ["x", "low", "high"], inputs)


def test_relu():
    f = pullback(RELU, "y", "x")
    assert_numbers(f(x=[-1, 0, 1], y_grad=[1, 1, 1]), y=[0, 0, 1], x_grad=[0, 0, 1])
    assert_numbers(f(x=[-1, 0, 1], y_grad=[2, 3, -5]), x_grad=[0, 0, -5])


@pytest.mark.parametrize("model", [RELU, (CLIP % "low, high").replace("[N]", "[3]")])
def test_nan_stays_nan_forward(model):
    feeds = {"x": [np.nan, 0.5, 2], "y_grad": [1, 1, 1]}
    if "low" in model:
        feeds |= {"low": 0, "high": 1}
    outputs = pullback(model, "y", "x")(feeds)
    assert np.isnan(outputs["y"][0])
    assert np.isfinite(outputs["x_grad"][1:]).all()


def test_in_a_loop():
    model = """(int64 n, float[4] x, float[4] w) => (float[4] y) {
      low = Constant<value = float {-0.5}>()
      high = Constant<value = float {1.5}>()
      y = Loop(n, , x) <body = body (int64 i, bool c, float[4] v) => (bool go, float[4] u) {
        go = Identity(c)
        a = Mul(v, w)
        b = Clip(a, low, high)
        d = Relu(b)
        u = Add(d, w)
      }>
    }"""
    inputs = {"n": 3, "x": [0.3, -0.9, 1.7, 0.6], "w": [0.7, 0.4, 1.3, -0.2]}
    assert_gradient(model, ["y"], ["x", "w"], inputs)
