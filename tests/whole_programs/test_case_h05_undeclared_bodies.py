"""Conformance case H5: bodies and branches that declare types, and no shapes."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.gradient import vjp

RNN = """(int64 n, float[%(x)s] x, float[%(h)s] h0, float[3,2] U, float[2,2] W, float[2] b)
    => (float[%(h)s] h, float[T,%(h)s] all) {
  h, all = Loop(n, , h0) <body = body (int64 t, bool c, %(t)s v) => (bool go, %(t)s u, %(t)s out) {
    go = Identity(c)
    row = Gather(x, t)
    p = MatMul(row, U)
    q = MatMul(v, W)
    s = Sum(p, q, b)
    u = Tanh(s)
    out = Mul(u, v)
  }>
}"""
FORMS = {
    "static": {"x": "4,2,3", "h": "2,2"},
    "dynamic": {"x": "S,N,3", "h": "N,2"},
    "other symbols": {"x": "A,B,3", "h": "C,D"},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("n", [1, 4])
def test_recurrent_net(form, n):
    rng = np.random.default_rng(5)
    x, h0 = (rng.normal(size=s).astype(np.float32) for s in ((4, 2, 3), (2, 2)))
    model = RNN % {**form, "t": "float[]"}
    wrt = ["x", "h0", "U", "W", "b"]
    second_order = form is FORMS["other symbols"] and n == 1
    assert_gradient(
        model, ["h", "all"], wrt, {"n": n, "x": x, "h0": h0},
        second_order=second_order, elements=8, directions=2,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_same_numbers_as_with_declared_shapes(form):
    """Also for zero trips, where the runtime gives the undeclared stack the rank 1."""
    rng = np.random.default_rng(5)
    at = {"x": (4, 2, 3), "h0": (2, 2), "U": (3, 2), "W": (2, 2), "b": (2,), "h_grad": (2, 2)}
    at = {name: rng.normal(size=shape).astype(np.float32) for name, shape in at.items()}
    declared = pullback(RNN % {**form, "t": f"float[{form['h']}]"}, "h", "x h0 U W b")
    undeclared = pullback(RNN % {**form, "t": "float[]"}, "h", "x h0 U W b")
    for n in (0, 1, 4):
        right = declared(at, n=n)
        right.pop("all")
        outputs = undeclared(at, n=n)
        assert_numbers(outputs, **{name: value.tolist() for name, value in right.items()})


def test_values_of_unknown_type_are_typed():
    """No declared type inside a branch, an outer type that nothing but inference tells."""
    model = """(bool c, float[N] x, float[N] w) => (float[N] y) {
      a = Mul(x, w)
      b = If(c) <
        then_branch = t () => (float[] p) { p = Sin(a) },
        else_branch = e () => (float[] q) { r = Mul(a, a) q = Add(r, w) }>
      y = Mul(b, x)
    }"""
    for c in (True, False):
        assert_gradient(model, ["y"], ["x", "w"], {"c": c}, second_order=True)


@pytest.mark.parametrize("n", [0, 2])
def test_three_levels(n):
    model = """(int64 n, float[A,B] x, float[T,A,B] s, float[B,B] w) => (float[A,B] y) {
      y = Loop(n, , x) <body = first (int64 i, bool c, float[] v) => (bool go, float[] u) {
        go = Identity(c)
        zero = Constant<value = int64 {0}>()
        odd = Equal(i, zero)
        u = If(odd) <
          then_branch = t () => (float[] a) {
            a, rows = Scan(v, s) <num_scan_inputs = 1, body = second
                (float[B,C] p, float[B,C] r) => (float[B,C] q, float[B,C] o) {
              m = MatMul(p, w)
              k = Add(m, r)
              q = Tanh(k)
              o = Mul(q, v)
            }>
          },
          else_branch = e () => (float[] b) { k1 = MatMul(v, w) b = Sin(k1) }>
      }>
    }"""
    assert_gradient(model, ["y"], ["x", "s", "w"], {"n": n}, elements=8, directions=2)


def test_types_of_the_gradient_are_known():
    model = vjp(parse(RNN % {**FORMS["dynamic"], "t": "float[]"}), ["h"], ["x", "W"])
    for value in model.graph.outputs:
        assert value.dtype is not None
        assert value.shape is not None
