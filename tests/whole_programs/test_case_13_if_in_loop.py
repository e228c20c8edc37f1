"""Conformance case 13: a branch in a loop that takes another weight in some of the trips."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

LOOP = """(bool[N] flags, float[1,2] x, float[2,2] W1, float[2,2] W2) => (float[1,2] y) {
  n = Size(flags)
  y = Loop(n, , x) <body = body (int64 it, bool c, float[1,2] v) => (bool go, float[1,2] u) {
    go = Identity(c)
    flag = Gather(flags, it)
    u = If(flag) <
      then_branch = first () => (float[1,2] a) { a = MatMul(v, W1) },
      else_branch = second () => (float[1,2] b) { b = MatMul(v, W2) }>
  }>
}"""
SCAN = """(bool[N] flags, float[1,2] x, float[2,2] W1, float[2,2] W2) => (float[1,2] y) {
  y = Scan(x, flags) <num_scan_inputs = 1, body = body (float[1,2] v, bool flag) => (float[1,2] u) {
    u = If(flag) <
      then_branch = first () => (float[1,2] a) { a = MatMul(v, W1) },
      else_branch = second () => (float[1,2] b) { b = MatMul(v, W2) }>
  }>
}"""
X, W1, W2 = [[1, 2]], [[1, 0.5], [0.2, 1]], [[0.3, -1], [0.7, 0.1]]


@pytest.mark.parametrize("model", [LOOP, SCAN], ids=["Loop", "Scan"])
def test_weights_of_both_branches(model):
    f = pullback(model, "y", "W1 W2 x")
    at = {"x": X, "W1": W1, "W2": W2}
    assert_numbers(
        f(at, flags=[True, False, True, True], y_grad=[[1, 1]]),
        y=[[1.927, 0.905]],
        W1_grad=[[4.325, 6.164], [-3.53, 1.795]],
        W2_grad=[[2.94, 2.1], [5.25, 3.75]],
        x_grad=[[-0.06, 1.446]],
    )
    assert_numbers(
        f(at, flags=[True] * 4, y_grad=[[1, 1]]),
        y=[[3.37, 5.42]],
        W1_grad=[[11.18, 8.84], [19.9, 15.58]],
        W2_grad=np.zeros((2, 2)),
        x_grad=[[3.81, 2.49]],
    )


def unrolled(flags, dy):
    values, weights = [np.array(X, float)], [np.array(W1 if flag else W2) for flag in flags]
    for weight in weights:
        values.append(values[-1] @ weight)
    dv, dW = np.array(dy), {True: np.zeros((2, 2)), False: np.zeros((2, 2))}
    for flag, value, weight in reversed(list(zip(flags, values, weights, strict=False))):
        dW[flag] += value.T @ dv
        dv = dv @ weight.T
    return dv, dW[True], dW[False]


@pytest.mark.parametrize("model", [LOOP, SCAN], ids=["Loop", "Scan"])
@pytest.mark.parametrize("flags", [[1, 0, 1, 1], [1, 1, 1, 1], [0, 0], [0]])
def test_seed_that_is_not_uniform(model, flags):
    flags = [bool(flag) for flag in flags]
    dx, dW1, dW2 = unrolled(flags, [[0.5, -3]])
    outputs = pullback(model, "y", "x W1 W2")(flags=flags, x=X, W1=W1, W2=W2, y_grad=[[0.5, -3]])
    assert_numbers(outputs, x_grad=dx, W1_grad=dW1, W2_grad=dW2)


def test_no_trip():
    outputs = pullback(LOOP, "y", "x W1 W2")(
        flags=np.zeros(0, bool), x=X, W1=W1, W2=W2, y_grad=[[0.5, -3]]
    )
    zeros = np.zeros((2, 2))
    assert_numbers(outputs, y=X, x_grad=[[0.5, -3]], W1_grad=zeros, W2_grad=zeros)


GENERAL = """(bool[T] flags, float[%(v)s] x, float[%(w)s] w, float[%(b)s] b)
    => (float[%(v)s] y, float[T,%(v)s] rows) {
  n = Size(flags)
  y, rows = Loop(n, , x) <body = body (int64 it, bool c, float[%(i)s] v)
      => (bool go, float[%(i)s] u, float[%(i)s] row) {
    go = Identity(c)
    flag = Gather(flags, it)
    outside = Sin(v)
    u, row = If(flag) <
      then_branch = first () => (float[%(i)s] a, float[%(i)s] a2) {
        p = MatMul(outside, w)
        a = Tanh(p)
        a2 = Mul(a, p)
      },
      else_branch = second () => (float[%(i)s] e, float[%(i)s] e2) {
        e = Add(v, b)
        e2 = Identity(v)
      }>
  }>
}"""


@pytest.mark.parametrize("flags", [[1, 0, 1, 1], [0, 0, 0], [1], []])
@pytest.mark.parametrize(
    "dims",
    [
        {"v": "2,3", "w": "3,3", "b": "3", "i": "2,3"},
        {"v": "N,D", "w": "D,D", "b": "D", "i": "N,D"},
        {"v": "N,D", "w": "D,D", "b": "D", "i": ""},
    ],
    ids=["static", "dynamic", "undeclared"],
)
def test_other_branches(flags, dims):
    rng = np.random.default_rng(13)
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((2, 3), (3, 3), (3,)))
    inputs = {"flags": np.array(flags, bool), "x": x, "w": w, "b": b}
    of = ["y", "rows"] if flags else ["y"]  # the runtime loses the shape of an empty stack
    assert_gradient(GENERAL % dims, of, ["x", "w", "b"], inputs)


@pytest.mark.parametrize("flags", [[1, 0], [0, 1], [0], []])
def test_second_order(flags):
    inputs = {
        "flags": np.array(flags, bool),
        "x": [[0.5, -1]], "w": [[0.5, 1], [-1, 0.25]], "b": [0.25, -0.5],
    }  # fmt: skip
    model = GENERAL % {"v": "N,D", "w": "D,D", "b": "D", "i": "N,D"}
    of = ["y", "rows"] if flags else ["y"]
    assert_gradient(model, of, ["x", "w"], inputs, second_order=True)


def test_condition_that_the_state_decides():
    model = """(int64 n, float[3] x, float[3] w) => (float[3] y) {
      limit = Constant<value = float {0.5}>()
      y = Loop(n, , x) <body = body (int64 it, bool c, float[3] v) => (bool go, float[3] u) {
        go = Identity(c)
        s = ReduceMax<keepdims = 0>(v)
        large = Greater(s, limit)
        u = If(large) <
          then_branch = shrink () => (float[3] a) { q = Mul(v, v) a = Mul(q, w) },
          else_branch = grow () => (float[3] e) { e = Add(v, w) }>
      }>
    }"""
    inputs = {"n": 5, "x": [0.25, 0.75, -0.5], "w": [0.5, 0.75, 0.25]}
    assert_gradient(model, ["y"], ["x", "w"], inputs, second_order=True)
