"""Conformance case 9: a loop in a loop, and a value captured two levels up."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(float X) => (float y) {
  five = Constant<value = int64 {5}>()
  three = Constant<value = int64 {3}>()
  one = Constant<value = int64 {1}>()
  zero = Constant<value = float {0}>()
  y = Loop(five, , zero) <body = outer (int64 i, bool c, float acc) => (bool go, float next) {
    go = Identity(c)
    next = Loop(%s, , acc) <body = inner (int64 j, bool d, float a) => (bool on, float b) {
      on = Identity(d)
      i1 = Add(i, one)
      j1 = Add(j, one)
      ij = Mul(i1, j1)
      f = Cast<to = 1>(ij)
      t = Mul(f, X)
      b = Add(a, t)
    }>
  }>
}"""


def test_fixed_inner_count():
    f = pullback(MODEL % "three", "y", "X")
    assert_numbers(f(X=2, y_grad=1), y=180, X_grad=90)
    assert_numbers(f(X=2, y_grad=-0.5), y=180, X_grad=-45)


def test_inner_count_is_the_outer_index():
    right = sum((i + 1) * (j + 1) for i in range(5) for j in range(i))
    f = pullback(MODEL % "i", "y", "X")
    assert_numbers(f(X=2, y_grad=1), y=2 * right, X_grad=right)
    assert_numbers(f(X=2, y_grad=0.25), X_grad=right / 4)


NONLINEAR = """(int64 n, int64 m, float[A,B] x, float[B,B] w, float[B] b)
    => (float[A,B] y, float[T,A,B] rows) {
  y, rows = Loop(n, , x) <body = outer (int64 i, bool c, %(t)s v) => (bool go, %(t)s u, %(t)s row) {
    go = Identity(c)
    u = Loop(%(count)s, , v) <body = inner (int64 j, bool d, %(t)s p) => (bool on, %(t)s q) {
      on = Identity(d)
      s = MatMul(p, w)
      t = Add(s, b)
      q = Tanh(t)
    }>
    row = Mul(u, v)
  }>
}"""


@pytest.mark.parametrize("declared", ["float[A,B]", "float[]"])
@pytest.mark.parametrize("count", ["m", "i"])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 0), (0, 2), (1, 1)])
def test_weights_state_and_scan_outputs(declared, count, n, m):
    rng = np.random.default_rng(9)
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((2, 3), (3, 3), (3,)))
    inputs = {"n": n, "m": m, "x": x, "w": w, "b": b}
    model = NONLINEAR % {"t": declared, "count": count}
    of = ["y", "rows"] if n else ["y"]  # the runtime shapes an empty stack of rows (0, 0, 0)
    assert_gradient(model, of, ["x", "w", "b"], inputs)


@pytest.mark.parametrize(("count", "n", "m"), [("m", 2, 2), ("i", 3, 0), ("m", 2, 0), ("m", 0, 1)])
def test_second_order(count, n, m):
    inputs = {"n": n, "m": m, "x": [[0.5, -1]], "w": [[0.5, 1], [-1, 0.25]], "b": [0.25, -0.5]}
    model = NONLINEAR % {"t": "float[A,B]", "count": count}
    assert_gradient(model, ["y", "rows"], ["x", "w"], inputs, second_order=True)


STACKS = """(int64 n, float[A,B] x, float[A,B] w) => (float[A,B] y, float[T,K,A,B] rows) {
  axis = Constant<value = int64[1] {0}>()
  y, rows = Loop(n, , x) <body = outer (int64 i, bool c, %(t)s v) => (bool go, %(t)s u, %(s)s rs) {
    go = Identity(c)
    p, rs = Loop(n, , v) <body = inner (int64 j, bool d, %(t)s a) => (bool on, %(t)s b, %(t)s r) {
      on = Identity(d)
      b = Mul(a, w)
      r = Sin(b)
    }>
    total = ReduceSum<keepdims = 0>(rs, axis)
    u = Add(p, total)
  }>
}"""


@pytest.mark.parametrize(("t", "s"), [("float[A,B]", "float[K,A,B]"), ("float[]", "float[]")])
def test_stacks_of_stacks(t, s):
    inputs = {"n": 2, "x": [[0.5, -1]], "w": [[0.75, 0.25]]}
    model = STACKS % {"t": t, "s": s}
    assert_gradient(model, ["y", "rows"], ["x", "w"], inputs, second_order=True)


THREE_DEEP = """(int64 n, float[2] x, float[2] w) => (float[2] y) {
  y = Loop(n, , x) <body = first (int64 i, bool c, float[2] v1) => (bool go1, float[2] u1) {
    go1 = Identity(c)
    a1 = Sin(v1)
    u1 = Loop(n, , a1) <body = second (int64 j, bool d, float[2] v2) => (bool go2, float[2] u2) {
      go2 = Identity(d)
      a2 = Mul(v2, v1)
      u2 = Loop(n, , a2) <body = third (int64 k, bool e, float[2] v3) => (bool go3, float[2] u3) {
        go3 = Identity(e)
        a3 = Mul(v3, w)
        b3 = Add(a3, v2)
        u3 = Sin(b3)
      }>
    }>
  }>
}"""


@pytest.mark.parametrize("n", [0, 1, 2])
def test_three_deep(n):
    inputs = {"n": n, "x": [0.75, -0.5], "w": [0.5, 1.25]}
    assert_gradient(THREE_DEEP, ["y"], ["x", "w"], inputs, second_order=n == 1)


def test_scan_in_loop_and_loop_in_scan():
    model = """(int64 n, float[2] x, float[3,2] s, float[2] w)
        => (float[2] y, float[T,3,2] all, float[3,2] rows) {
      a, all = Loop(n, , x) <body = outer (int64 i, bool c, float[2] v)
          => (bool go, float[2] u, float[3,2] out) {
        go = Identity(c)
        u, out = Scan(v, s) <num_scan_inputs = 1, body = inner (float[2] p, float[2] r)
            => (float[2] q, float[2] o) {
          t = Mul(p, w)
          q = Add(t, r)
          o = Mul(q, v)
        }>
      }>
      y, rows = Scan(a, s) <num_scan_inputs = 1, body = other (float[2] p, float[2] r)
          => (float[2] q, float[2] o) {
        o = Mul(p, r)
        q = Loop(n, , o) <body = deep (int64 j, bool d, float[2] k) => (bool on, float[2] l) {
          on = Identity(d)
          m = Mul(k, w)
          l = Sin(m)
        }>
      }>
    }"""
    for n in (0, 2):
        assert_gradient(model, ["y", "all", "rows"], ["x", "s", "w"], {"n": n}, second_order=n == 2)
