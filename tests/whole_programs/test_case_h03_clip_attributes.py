"""Conformance case H3: the same network at old and new opsets has the same gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

OLD = "(float[6] x) => (float[6] y) { y = Clip <min = 1.0, max = 4.0> (x) }"
NEW = """(float[6] x) => (float[6] y) <float low = {1}, float high = {4}> {
  y = Clip (x, low, high) }"""


@pytest.mark.parametrize("text, opset", [(OLD, 7), (OLD, 9), (OLD, 10), (NEW, 11), (NEW, 17)])
def test_clip(text: str, opset: int) -> None:
    outputs = pullback(text, "y", "x", opset)(x=[0, 1, 2, 3, 4, 5], y_grad=[1, 2, 3, 4, 5, 6])
    assert_numbers(outputs, y=[1, 1, 2, 3, 4, 4], x_grad=[0, 2, 3, 4, 5, 0])


NETWORK = """(float[1,2,6,6] x, float[3,2,3,3] k, float[12,5] w, float[5] b) => (float[1,5] y) {
  a = Conv (x, k)
  c = Clip <min = -0.5, max = 1.5> (a)
  m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c)
  f = Flatten (m)
  g = Gemm (f, w, b)
  y = Softmax (g) }"""
NETWORK_17 = NETWORK.replace(
    "c = Clip <min = -0.5, max = 1.5> (a)",
    """low = Constant <value = float {-0.5}> ()
  high = Constant <value = float {1.5}> ()
  c = Clip (a, low, high)""",
)


def test_network_at_two_opsets() -> None:
    rng = np.random.default_rng(0)
    shapes = {"x": (1, 2, 6, 6), "k": (3, 2, 3, 3), "w": (12, 5), "b": (5,), "y_grad": (1, 5)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    old = pullback(NETWORK, "y", "x k w b", 9)(feeds)
    new = pullback(NETWORK_17, "y", "x k w b", 17)(feeds)
    assert old.keys() == new.keys()
    for name, value in old.items():
        np.testing.assert_array_equal(value, new[name])
    assert_gradient(NETWORK, ["y"], ["x", "k", "w", "b"], opset=9, kinks=True)


def test_inside_a_loop() -> None:
    text = """(float[3] x, float w, int64 n) => (float[3] y) {
      y = Loop (n, , x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] r) {
        d = Identity (c) s = Mul (v, w) r = Clip <min = -0.75, max = 0.75> (s) }> }"""
    outputs = pullback(text, "y", "x w", 10)(x=[0.25, 1, -3], w=1.5, n=2, y_grad=[1, 10, 100])
    assert_numbers(outputs, y=[0.5625, 0.75, -0.75], x_grad=[2.25, 0, 0], w_grad=0.75)
