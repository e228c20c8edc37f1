"""Conformance case 14: branches that read different weights; the other one's gradient is zero."""

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.gradient import vjp
from whileback.graph.scopes import branches, walk

MODEL = """(%(x)s x, %(w1)s w1, %(w2)s w2) => (%(y)s y) {
  zero = Constant<value = float {0}>()
  total = ReduceSum<keepdims = 0>(x)
  positive = Greater(total, zero)
  y = If(positive) <
    then_branch = yes () => (%(y)s a) { a = Mul(w1, x) },
    else_branch = no () => (%(y)s b) { b = Mul(w2, x) }>
}"""
SCALARS = MODEL % dict.fromkeys(("x", "w1", "w2", "y"), "float")


def test_both_signs():
    f = pullback(SCALARS, "y", "w1 w2 x")
    assert_numbers(f(x=3, w1=2, w2=5, y_grad=1), y=6, w1_grad=3, w2_grad=0, x_grad=2)
    assert_numbers(f(x=-3, w1=2, w2=5, y_grad=1), y=-15, w1_grad=0, w2_grad=-3, x_grad=5)
    assert_numbers(f(x=3, w1=2, w2=5, y_grad=-0.5), w1_grad=-1.5, w2_grad=0, x_grad=-1)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "dims",
    [
        {"x": "float[2,3]", "w1": "float[3]", "w2": "float[2,1]", "y": "float[2,3]"},
        {"x": "float[N,D]", "w1": "float[D]", "w2": "float[N,1]", "y": "float[N,D]"},
        {"x": "float[N,D]", "w1": "float[A]", "w2": "float[B,C]", "y": "float[E,F]"},
    ],
    ids=["static", "dynamic", "unrelated symbols"],
)
def test_zeros_have_the_shape_of_the_weight(dims, sign):
    x, w2 = sign * np.float32([[0.5, 1, 2], [-0.5, 1, 2]]), np.float32([[3], [-2]])
    inputs = {"x": x, "w1": np.float32([1, -2, 0.5]), "w2": w2}
    got = assert_gradient(MODEL % dims, ["y"], ["w1", "w2", "x"], inputs, second_order=True)
    unread = "w2" if sign > 0 else "w1"
    np.testing.assert_array_equal(got[unread], np.zeros(inputs[unread].shape))


def test_zeros_have_the_type_of_the_weight():
    model = """(bool c, float x, double w1, float16[2] w2) => (float y) {
      y = If(c) <
        then_branch = yes () => (float a) { k = Cast<to = 1>(w1) a = Mul(k, x) },
        else_branch = no () => (float b) {
          l = ReduceSum<keepdims = 0>(w2)
          m = Cast<to = 1>(l)
          b = Mul(m, x)
        }>
    }"""
    inputs = {"x": 2, "w1": 3.0, "w2": np.float16([0.5, 0.25])}
    for c in (True, False):
        assert_gradient(model, ["y"], ["w1", "w2", "x"], {"c": c, **inputs})


def test_branches_of_the_gradient_agree_in_number_and_type():
    model = vjp(parse(SCALARS), ["y"], ["w1", "w2", "x"])
    found = [branches(node) for node in walk(model.graph) if node.op_type == "If"]
    assert len(found) == 2
    for then, other in found:
        assert [value.dtype for value in then.outputs] == [value.dtype for value in other.outputs]
        assert all(value.dtype == ir.DataType.FLOAT for value in then.outputs)


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_branches_in_branches(outer, inner):
    model = """(bool c, bool d, float[N] x, float[N] u, float[N] v, float[N] w)
        => (float[N] y, float z) {
      y, z = If(c) <
        then_branch = t () => (float[N] a, float z1) {
          s = Sin(x)
          a, z1 = If(d) <
            then_branch = tt () => (float[N] p, float p1) {
              p = Mul(s, u)
              p1 = ReduceSum<keepdims = 0>(p)
            },
            else_branch = te () => (float[N] q, float q1) {
              q = Mul(s, v)
              q1 = ReduceSum<keepdims = 0>(s)
            }>
        },
        else_branch = e () => (float[N] b, float z2) {
          b = Mul(w, w)
          r = Mul(b, x)
          z2 = ReduceSum<keepdims = 0>(r)
        }>
    }"""
    inputs = {"c": outer, "d": inner}
    assert_gradient(model, ["y", "z"], ["u", "v", "w", "x"], inputs, second_order=True)
