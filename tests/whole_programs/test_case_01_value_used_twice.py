"""Conformance case 1: a carried value that is both operands of an operator in the body."""

import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

LOOP = """(float x) => (float y) {
  n = Constant<value = int64 {%d}>()
  y = Loop(n, , x) <body = body (int64 i, bool c, float v) => (bool go, float w) {
    go = Identity(c)
    w = %s(v, v)
  }>
}"""
ANY_TRIPS = """(int64 n, float[%s] x) => (float[%s] y) {
  y = Loop(n, , x) <body = body (int64 i, bool c, float[%s] v) => (bool go, float[%s] w) {
    go = Identity(c)
    w = %s(v, v)
  }>
}"""
SCAN = """(float[2] x, float[4] rows) => (float[2] y, float[4,2] all) {
  y, all = Scan(x, rows) <num_scan_inputs = 1,
    body = body (float[2] v, float r) => (float[2] w, float[2] row) {
      w = %s(v, v)
      row = Mul(w, r)
    }>
}"""


def test_add_doubles_six_times():
    f = pullback(LOOP % (6, "Add"), "y", "x")
    assert_numbers(f(x=5, y_grad=1), y=320, x_grad=64)
    assert_numbers(f(x=5, y_grad=-0.25), y=320, x_grad=-16)


def test_mul_squares_three_times():
    f = pullback(LOOP % (3, "Mul"), "y", "x")
    assert_numbers(f(x=1.1, y_grad=1), y=1.1**8, x_grad=8 * 1.1**7)
    assert_numbers(f(x=1.1, y_grad=3), y=1.1**8, x_grad=24 * 1.1**7)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Sum"])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_other_operators(op, trips):
    x = [[0.5, -1.25, 0.75], [1.125, -0.875, 0.25]]
    model = ANY_TRIPS % ("2,3", "2,3", "2,3", "2,3", op)
    assert_gradient(model, ["y"], ["x"], {"n": trips, "x": x}, second_order=op == "Mul")


@pytest.mark.parametrize(
    ("outside", "inside", "x"),
    [
        ("N", "N", [0.5, -1.25, 0.75]),
        ("N", "", [0.5, -1.25]),
        ("N", "M", [0.5, -1.25]),
        ("1,N", "A,B", [[2, 0.5]]),
    ],
)
def test_other_shapes(outside, inside, x):
    model = ANY_TRIPS % (outside, outside, inside, inside, "Mul")
    assert_gradient(model, ["y"], ["x"], {"n": 3, "x": x}, second_order=True)


def test_unknown_rank():
    model = """(int64 n, float[N] x, int64[R] shape) => (float[N] y) {
      v0 = Reshape(x, shape)
      vn = Loop(n, , v0) <body = body (int64 i, bool c, float[] v) => (bool go, float[] w) {
        go = Identity(c)
        w = Mul(v, v)
      }>
      size = Constant<value = int64[1] {-1}>()
      y = Reshape(vn, size)
    }"""
    for shape, n in [([2, 2], 2), ([4, 1, 1], 1), ([4], 0)]:
        inputs = {"n": n, "x": [0.5, -1.25, 0.75, 1], "shape": shape}
        assert_gradient(model, ["y"], ["x"], inputs, second_order=True)


def test_matrix_times_itself():
    model = ANY_TRIPS % ("2,2", "2,2", "2,2", "2,2", "MatMul")
    assert_gradient(model, ["y"], ["x"], {"n": 2}, second_order=True)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_scan(op):
    assert_gradient(SCAN % op, ["y", "all"], ["x", "rows"], second_order=True)
