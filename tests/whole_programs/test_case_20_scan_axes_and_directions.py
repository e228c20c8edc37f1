"""Conformance case 20: the axes of a `Scan`, negative ones included, and its directions."""

import itertools

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

VECTOR = """(float[3] x) => (float[3] y) {
  zero = Constant<value = float {0}>()
  sum, y = Scan(zero, x) <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
    scan_input_directions = [%d], scan_output_directions = [%d],
    body = body (float s, float r) => (float t, float out) {
      t = Add(s, r)
      out = Identity(t)
    }>
}"""
MATRIX = """(float[2,3] x) => (float[2,3] y) {
  zeros = Constant<value = float[2] {0, 0}>()
  sum, y = Scan(zeros, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
    body = body (float[2] s, float[2] r) => (float[2] t, float[2] out) {
      t = Add(s, r)
      out = Identity(t)
    }>
}"""


@pytest.mark.parametrize(
    ("directions", "y", "dx"),
    [
        ((0, 0), [1, 3, 6], [111, 110, 100]),
        ((1, 0), [3, 5, 6], [100, 110, 111]),
        ((1, 1), [6, 5, 3], [1, 11, 111]),
        ((0, 1), [6, 3, 1], [111, 11, 1]),
    ],
)
def test_running_sum(directions, y, dx):
    f = pullback(VECTOR % directions, "y", "x")
    assert_numbers(f(x=[1, 2, 3], y_grad=[1, 10, 100]), y=y, x_grad=dx)


def test_matrix():
    f = pullback(MATRIX, "y", "x")
    outputs = f(x=[[1, 2, 3], [4, 5, 6]], y_grad=[[1, 10, 100]] * 2)
    assert_numbers(outputs, y=[[1, 3, 6], [4, 9, 15]], x_grad=[[111, 110, 100]] * 2)


GENERAL = """(float[%(h)s] h, float[%(x)s] x, float[%(z)s] z, float[2,2] w)
    => (float[%(h)s] end, float[%(y)s] y, float[%(q)s] q) {
  end, y, q = Scan(h, x, z) <num_scan_inputs = 2,
    scan_input_axes = [%(ix)s, %(iz)s], scan_output_axes = [%(oy)s, %(oq)s],
    scan_input_directions = [%(dx)s, %(dz)s], scan_output_directions = [%(dy)s, %(dq)s],
    body = body (float[%(r)s] v, float[%(r)s] a, float[%(r)s] b)
        => (float[%(r)s] u, float[%(r)s] p, float[%(r)s] o) {
      m = MatMul(v, w)
      c = Mul(a, b)
      d = Add(m, c)
      u = Tanh(d)
      p = Mul(u, a)
      o = Identity(u)
    }>
}"""
T = 4


def shapes(axes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of stacks of (3, 2) matrices along these axes."""
    found = {"h": (3, 2)}
    for name, axis in axes.items():
        dims = [3, 2]
        dims.insert(axis % 3, T)
        found[name] = tuple(dims)
    return found


@pytest.mark.parametrize("axes", [(0, 0, 0, 0), (1, -1, -2, 2), (2, 0, 1, -3), (-3, 1, -1, 0)])
@pytest.mark.parametrize("directions", itertools.product((0, 1), (0, 1), (0, 1), (0,)))
def test_every_axis_and_direction(axes, directions):
    sizes = shapes(dict(zip(("x", "z", "y", "q"), axes, strict=True)))
    symbols = {3: "N", 2: "2", T: "T"}
    form = {n: ",".join(symbols[d] for d in shape) for n, shape in sizes.items()}
    form |= dict(zip(("ix", "iz", "oy", "oq"), axes, strict=True)) | {"r": "N,2"}
    form |= dict(zip(("dx", "dz", "dy", "dq"), directions, strict=True))
    rng = np.random.default_rng(20)
    inputs = {n: rng.normal(size=sizes[n]).astype(np.float32) for n in ("h", "x", "z")}
    wrt = ["h", "x", "z", "w"]
    assert_gradient(GENERAL % form, ["end", "y", "q"], wrt, inputs, elements=8, directions=2)


@pytest.mark.parametrize("directions", [(0, 0, 0, 0), (1, 0, 1, 0)])
def test_second_order(directions):
    form = {"h": "1,2", "x": "1,T,2", "z": "T,1,2", "y": "1,2,T", "q": "T,1,2", "r": "1,2"}
    form |= {"ix": 1, "iz": 0, "oy": -1, "oq": 0}
    form |= dict(zip(("dx", "dz", "dy", "dq"), directions, strict=True))
    wrt = ["h", "x", "z", "w"]
    assert_gradient(
        GENERAL % form, ["end", "y", "q"], wrt, elements=4, directions=2, second_order=True
    )


@pytest.mark.parametrize("of", [["end"], ["y"], ["q"]])
def test_only_one_result_is_differentiated(of):
    form = {"h": "1,2", "x": "1,T,2", "z": "T,1,2", "y": "1,2,T", "q": "T,1,2", "r": "1,2"}
    form |= {"ix": 1, "iz": 0, "oy": -1, "oq": 0, "dx": 1, "dz": 0, "dy": 1, "dq": 1}
    assert_gradient(GENERAL % form, of, ["x", "w"])


def test_no_carried_value():
    model = """(float[T,2] x, float[2] w) => (float[2,T] y) {
      y = Scan(x) <num_scan_inputs = 1, scan_output_axes = [1], scan_output_directions = [1],
        body = body (float[2] r) => (float[2] p) { q = Mul(r, w) p = Sin(q) }>
    }"""
    assert_gradient(model, ["y"], ["x", "w"], second_order=True)


def test_no_result_that_is_stacked():
    model = """(float[2] h, float[2,T] x) => (float[2] end) {
      end = Scan(h, x) <num_scan_inputs = 1, scan_input_axes = [-1], scan_input_directions = [1],
        body = body (float[2] v, float[2] r) => (float[2] u) { a = Mul(v, r) u = Sin(a) }>
    }"""
    assert_gradient(
        model, ["end"], ["h", "x"], {"x": [[1, 2, 0.5], [0.25, -1, 3]]}, second_order=True
    )


def test_integer_rows_and_state():
    model = """(float[2] h, float[5,2] table, int64[T] rows)
        => (float[2] end, int64 last, float[T,2] y) {
      zero = Constant<value = int64 {0}>()
      end, last, y = Scan(h, zero, rows) <num_scan_inputs = 1, scan_input_directions = [1],
        body = body (float[2] v, int64 k, int64 r) => (float[2] u, int64 s, float[2] out) {
          s = Add(k, r)
          row = Gather(table, r)
          a = Mul(v, row)
          u = Sin(a)
          out = Add(u, row)
        }>
    }"""
    inputs = {"rows": np.int64([3, 0, 3, 4])}
    assert_gradient(model, ["end", "y"], ["h", "table"], inputs, second_order=True)
