"""Conformance case S2: a loop that hands its value through, and a step on its gradient."""

import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers

from whileback.engines import compile
from whileback.gradient import gradient

MODEL = """(int64 n, float v) => (float L) {
  u = Loop(n, , v) <body = body (int64 i, bool c, float a) => (bool go, float b) {
    go = Identity(c)
    b = Identity(a)
  }>
  L = Mul(u, u)
}"""


def test_one_step():
    f = compile(gradient(parse(MODEL), of="L", wrt="v"), threads=1)
    outputs = f(n=1, v=2)
    assert_numbers(outputs, L=4, v_grad=4)
    v = 2 - 0.9 * float(outputs["v_grad"])
    assert v == pytest.approx(-1.6)
    assert_numbers(f(n=1, v=v), L=2.56, v_grad=-3.2)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_any_number_of_trips_that_change_nothing(n):
    f = compile(gradient(parse(MODEL), of="L", wrt="v"), threads=1)
    assert_numbers(f(n=n, v=-1.5), L=2.25, v_grad=-3)
    assert_gradient(MODEL, ["L"], ["v"], {"n": n}, second_order=True)


def test_steps_on_a_weight_inside_a_loop():
    """Ten steps by the same file lower the loss of y = tanh(…tanh(x·w)…·w)."""
    model = """(float[4,2] x, float[4,2] target)
        => (float loss) <float[2,2] w = {0.5, -1, 0.25, 1}> {
      n = Constant<value = int64 {3}>()
      y = Loop(n, , x) <body = body (int64 i, bool c, float[4,2] a) => (bool go, float[4,2] b) {
        go = Identity(c)
        p = MatMul(a, w)
        b = Tanh(p)
      }>
      d = Sub(y, target)
      q = Mul(d, d)
      loss = ReduceSum<keepdims = 0>(q)
    }"""
    f = compile(gradient(parse(model), of="loss", wrt="w"), threads=1)
    x = [[1, 0], [0, 1], [0.5, 0.5], [-1, 1]]
    target = [[0.25, -0.5], [0.5, 0.25], [0.25, 0], [0, 0.5]]
    outputs = f(x=x, target=target)
    losses, w = [float(outputs["loss"])], parse(model).graph.initializers["w"].const_value.numpy()
    for _ in range(10):
        w = w - 0.05 * outputs["w_grad"]
        outputs = f(x=x, target=target, w=w)
        losses.append(float(outputs["loss"]))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2
