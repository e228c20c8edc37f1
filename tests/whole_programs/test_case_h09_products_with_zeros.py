"""Conformance case H9: ReduceProd with zeros among its elements, and Pow(0, 0)."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

ALL = "(float[N] x) => (float y) { y = ReduceProd<keepdims = 0>(x) }"
ROWS = """(float[A,B] x) => (float[%s] y) {
  axes = Constant<value = int64[1] {%d}>()
  y = ReduceProd<keepdims = %d>(x, axes)
}"""


@pytest.mark.parametrize("seed", [1, -0.5])
@pytest.mark.parametrize(
    ("x", "right"),
    [
        ([2, 3, 4], [12, 8, 6]),
        ([2, 0, 4], [0, 8, 0]),
        ([0, 3, 0], [0, 0, 0]),
        ([0, 0, 0], [0, 0, 0]),
        ([0], [1]),
        ([-2, 0, 5, 1], [0, -10, 0, 0]),
    ],
)
def test_by_hand(x, right, seed):
    outputs = pullback(ALL, "y", "x")(x=x, y_grad=seed)
    assert_numbers(outputs, y=float(np.prod(x)), x_grad=np.multiply(seed, right))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keep", [0, 1])
def test_along_an_axis(axis, keep):
    x = [[2, 0, 3, 0], [0.5, 1.5, 2, 0], [1, -1, 0, 4]]
    model = ROWS % ("P,Q" if keep else "P", axis, keep)
    assert_gradient(model, ["y"], ["x"], {"x": x})


@pytest.mark.parametrize("x", [[2, 3, 4], [2, 0, 4], [0, 3, 0]])
def test_second_order(x):
    """With two zeros the first derivative is zero and the second is not."""
    assert_gradient(ALL, ["y"], ["x"], {"x": x}, second_order=True)


def test_all_axes_are_empty_or_given_at_run_time():
    model = """(float[A,B] x, int64[K] axes) => (float[P,Q] y) { y = ReduceProd(x, axes) }"""
    x = [[2, 0, 3], [0.5, 1.5, 2]]
    for axes in ([0], [1], [0, 1], [-1]):
        assert_gradient(model, ["y"], ["x"], {"x": x, "axes": axes})


def test_product_by_a_loop_agrees():
    loop = """(float[T] x) => (float y) {
      one = Constant<value = float {1}>()
      y = Scan(one, x) <num_scan_inputs = 1,
        body = body (float p, float r) => (float q) { q = Mul(p, r) }>
    }"""
    for x in ([2, 3, 4], [2, 0, 4], [0, 3, 0]):
        reduced = pullback(ALL, "y", "x")(x=x, y_grad=3)
        assert_numbers(pullback(loop, "y", "x")(x=x, y_grad=3), x_grad=reduced["x_grad"].tolist())


def test_zero_to_the_zero():
    f = pullback("(float[N] b, float[N] e) => (float[N] y) { y = Pow(b, e) }", "y", "b e")
    outputs = f(b=[0, 0, 3], e=[0, 2, 0], y_grad=[5, 7, 2])
    assert_numbers({"y": outputs["y"]}, y=[1, 0, 1])
    assert_numbers(outputs, b_grad=[0, 0, 0], e_grad=[0, 0, 2 * np.log(3)])
