"""Conformance case S13: the gradient of a gradient through a loop."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers

from whileback.engines import compile
from whileback.gradient import gradient

POWER = """(int64 n, float x) => (float y) {
  one = Constant<value = float {1}>()
  y = Loop(%s, , one) <body = body (int64 i, bool c, float v) => (bool go, float u) {
    u = Mul(v, x)
    %s
  }>
}"""
BY_LIMIT = POWER % ("n", "go = Identity(c)")
BY_CONDITION = POWER % ("", "k = Add(i, k1) go = Less(k, n)")
BY_CONDITION = BY_CONDITION.replace("y = Loop", "k1 = Constant<value = int64 {1}>() y = Loop")


@pytest.mark.parametrize("model", [BY_LIMIT, BY_CONDITION], ids=["limit", "condition"])
def test_fourth_power(model):
    first = gradient(parse(model), of="y", wrt="x")
    second = gradient(first, of="x_grad", wrt="x")
    f = compile(second, threads=1)
    assert_numbers(f(n=4, x=1.5), y=1.5**4, x_grad=4 * 1.5**3, x_grad_1=27)
    assert_numbers(f(n=1, x=1.5), y=1.5, x_grad=1, x_grad_1=0)
    assert_numbers(f(n=7, x=-0.5), x_grad=7 * 0.5**6, x_grad_1=-42 * 0.5**5)


def test_zero_trips():
    second = gradient(gradient(parse(BY_LIMIT), of="y", wrt="x"), of="x_grad", wrt="x")
    assert_numbers(compile(second, threads=1)(n=0, x=1.5), y=1, x_grad=0, x_grad_1=0)


def test_third_derivative():
    model = parse(BY_LIMIT)
    for of in ("y", "x_grad", "x_grad_1"):
        model = gradient(model, of=of, wrt="x")
    outputs = compile(model, threads=1)(n=4, x=1.5)
    assert_numbers(outputs, y=1.5**4, x_grad=4 * 1.5**3, x_grad_1=27, x_grad_2=36)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
@pytest.mark.parametrize("model", [BY_LIMIT, BY_CONDITION], ids=["limit", "condition"])
def test_against_finite_differences(model, n):
    x = np.float32(1.5)
    assert_gradient(model, ["y"], ["x"], {"n": n, "x": x}, second_order=True)


def test_mixed_derivative():
    """∂²/∂x∂w of y = x·wⁿ is n·wⁿ⁻¹."""
    model = """(int64 n, float x, float w) => (float y) {
      y = Loop(n, , x) <body = body (int64 i, bool c, float v) => (bool go, float u) {
        go = Identity(c)
        u = Mul(v, w)
      }>
    }"""
    first = gradient(parse(model), of="y", wrt=["x", "w"])
    f = compile(gradient(first, of="x_grad", wrt="w"), threads=1)
    assert_numbers(f(n=5, x=0.25, w=2), x_grad=32, w_grad=0.25 * 80, w_grad_1=80)
