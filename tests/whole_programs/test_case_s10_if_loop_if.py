"""Conformance case S10: If in Loop in If, with a weight captured in the innermost scope."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(bool outer, bool[T] flags, %(x)s x, %(W)s W) => (%(x)s y) {
  n = Size(flags)
  y = If(outer) <
    then_branch = yes () => (%(x)s a) {
      a = Loop(n, , x) <body = body (int64 i, bool c, %(v)s v) => (bool go, %(v)s u) {
        go = Identity(c)
        flag = Gather(flags, i)
        u = If(flag) <
          then_branch = turn () => (%(v)s p) { q = MatMul(v, W) p = Tanh(q) },
          else_branch = keep () => (%(v)s r) { r = Mul(v, v) }>
      }>
    },
    else_branch = no () => (%(x)s b) { b = MatMul(x, W) }>
}"""
STATIC = {"x": "float[1,2]", "W": "float[2,2]", "v": "float[1,2]"}
X, W = [[0.5, -1.5]], [[1, 0.5], [-0.25, 1]]


def unrolled(flags, seed):
    values = [np.array(X)]
    for flag in flags:
        values.append(np.tanh(values[-1] @ W) if flag else values[-1] ** 2)
    dv, dW = np.array(seed, float), np.zeros((2, 2))
    for t in reversed(range(len(flags))):
        if flags[t]:
            slope = dv * (1 - values[t + 1] ** 2)
            dW += values[t].T @ slope
            dv = slope @ np.transpose(W)
        else:
            dv = 2 * dv * values[t]
    return values[-1], dv, dW


@pytest.mark.parametrize("seed", [[[1, 1]], [[0.5, -3]]])
@pytest.mark.parametrize("flags", [[1, 0, 1], [0, 0], [1], []])
def test_equals_the_unrolled_graph(flags, seed):
    flags = [bool(flag) for flag in flags]
    y, dx, dW = unrolled(flags, seed)
    f = pullback(MODEL % STATIC, "y", "x W")
    outputs = f(outer=True, flags=np.array(flags, bool), x=X, W=W, y_grad=seed)
    assert_numbers(outputs, y=y, x_grad=dx, W_grad=dW)
    outputs = f(outer=False, flags=np.array(flags, bool), x=X, W=W, y_grad=seed)
    dW, dx = np.transpose(X) @ seed, seed @ np.transpose(W)
    assert_numbers(outputs, y=np.matmul(X, W), x_grad=dx, W_grad=dW)


DYNAMIC = {"x": "float[N,D]", "W": "float[D,D]", "v": "float[N,D]"}
UNDECLARED = {**DYNAMIC, "v": "float[]"}


@pytest.mark.parametrize("dims", [STATIC, DYNAMIC, UNDECLARED], ids=["static", "dynamic", "none"])
@pytest.mark.parametrize(("outer", "flags"), [(1, [1, 0, 1]), (1, []), (1, [0]), (0, [1, 0])])
def test_against_finite_differences(dims, outer, flags):
    inputs = {"outer": bool(outer), "flags": np.array(flags, bool), "x": X, "W": W}
    assert_gradient(MODEL % dims, ["y"], ["x", "W"], inputs, second_order=dims is DYNAMIC)


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("n", [0, 2])
def test_scan_in_loop_in_if_in_loop(c, n):
    model = """(int64 n, bool c, float[3,2] s, float[2] x, float[2] w) => (float[2] y, float z) {
      y, all = Loop(n, , x) <body = first (int64 i, bool p, float[2] v)
          => (bool go, float[2] u, float r) {
        go = Identity(p)
        u, r = If(c) <
          then_branch = yes () => (float[2] a, float a2) {
            a = Loop(n, , v) <body = second (int64 j, bool q, float[2] b) => (bool on, float[2] d) {
              on = Identity(q)
              d, rows = Scan(b, s) <num_scan_inputs = 1, body = third (float[2] e, float[2] f)
                  => (float[2] g, float[2] row) {
                h = Mul(e, w)
                k = Sum(h, v, f)
                g = Sin(k)
                row = Mul(g, f)
              }>
            }>
            a2 = ReduceSum<keepdims = 0>(a)
          },
          else_branch = no () => (float[2] l, float l2) {
            l = Mul(v, w)
            l2 = ReduceMax<keepdims = 0>(l)
          }>
      }>
      z = ReduceSum<keepdims = 0>(all)
    }"""
    inputs = {"n": n, "c": c}
    assert_gradient(model, ["y", "z"], ["x", "w", "s"], inputs, second_order=n == 2)
