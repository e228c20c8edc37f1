"""Conformance case H7: gradients for an input, an initializer and an intermediate value at once."""

import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.engines import compile
from whileback.gradient import gradient, names

MODEL = """(float[2] x) => (float[2] y) <float[2] w = {3, 5}> {
  h = Mul(x, w)
  z = Add(h, x)
  y = Mul(z, h)
}"""


@pytest.mark.parametrize("order", ["x w h", "h x w", "w h x"])
def test_by_hand(order):
    """y = (h + x)·h with h = x·w: dh is (2h + x), dx also takes h, dw is x·dh."""
    outputs = pullback(MODEL, "y", order)(x=[1, 2], y_grad=[1, 10])
    assert list(outputs) == ["y", *(f"{name}_grad" for name in order.split())]
    assert_numbers(outputs, y=[12, 120], h_grad=[7, 220], w_grad=[7, 440], x_grad=[24, 1200])


def test_intermediate_value_between_of_and_its_users():
    """An intermediate value's gradient counts all that follows it, and nothing before it."""
    outputs = pullback(MODEL, "y h", "h x")(x=[1, 2], y_grad=[1, 10], h_grad=[100, 1000])
    assert list(outputs)[:2] == ["y", "h"]
    grads = [outputs[name].tolist() for name in list(outputs)[2:]]
    assert grads == [[107, 1220], [3 * 107 + 3, 5 * 1220 + 100]]


def test_names_tell_which_is_which():
    model = gradient(parse(MODEL), of="y", wrt=["h", "w", "x"], reduce="sum")
    found = names(model)
    assert {name: found[name] for name in ("h", "w", "x")} == {
        "h": "h_grad", "w": "w_grad", "x": "x_grad"
    }  # fmt: skip
    outputs = compile(model)(x=[1, 2], w=[1, 1])
    assert_numbers(outputs, h_grad=[3, 6], w_grad=[3, 12], x_grad=[4, 8])


LOOP = """(int64 n, float[2] x) => (float[2] y, float[T,2] rows) <float[2] w = {0.5, 1.25}> {
  start = Sin(x)
  middle, rows = Loop(n, , start) <body = body (int64 i, bool c, float[2] v)
      => (bool go, float[2] u, float[2] row) {
    go = Identity(c)
    a = Mul(v, w)
    u = Add(a, x)
    row = Mul(u, start)
  }>
  y = Mul(middle, w)
}"""


@pytest.mark.parametrize("n", [1, 3])
def test_around_a_loop(n):
    wrt = ["w", "start", "x", "middle"]
    assert_gradient(LOOP, ["y", "rows"], wrt, {"n": n}, second_order=n == 1)
    assert_gradient(LOOP, ["middle"], ["x", "w", "start"], {"n": n})
    assert_gradient(LOOP, ["y", "middle"], ["middle", "x"], {"n": n})
    assert_gradient(LOOP, ["rows"], ["rows", "w"], {"n": n})


@pytest.mark.parametrize("c", [True, False])
def test_around_a_branch(c):
    model = """(bool c, float[2] x) => (float[2] y) <float[2] w = {0.5, 1.25}> {
      h = Mul(x, w)
      m = If(c) <
        then_branch = t () => (float[2] a) { a = Mul(h, x) },
        else_branch = e () => (float[2] b) { b = Sin(w) }>
      y = Mul(m, h)
    }"""
    assert_gradient(model, ["y"], ["m", "h", "w", "x"], {"c": c}, second_order=True)
