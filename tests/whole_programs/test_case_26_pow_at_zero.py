"""Conformance case 26: Pow at base 0 and at negative bases, both operands differentiated."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = "(float[%s] b, %s e) => (float[N] y) { y = Pow(b, e) }"


def run(b, e, seed, wrt="b e"):
    f = pullback(MODEL % ("N", "float[N]"), "y", wrt)
    return f(b=b, e=e, y_grad=seed)


@pytest.mark.parametrize("seed", [[1, 1], [0.5, -3]])
def test_base_zero(seed):
    de = np.multiply([0, 2 * np.log(2)], seed)
    assert_numbers(run([0, 2], [1, 1], seed), y=[0, 2], e_grad=de, b_grad=seed)


@pytest.mark.parametrize("seed", [[1, 1, 1], [0.5, -3, 2]])
def test_exponents_zero_one_two(seed):
    outputs = run([0, 0, 0], [0, 1, 2], seed)
    assert_numbers(outputs, y=[1, 0, 0], b_grad=np.multiply([0, 1, 0], seed))
    assert np.isfinite(outputs["e_grad"]).all()


@pytest.mark.parametrize("seed", [[1, 1, 1], [0.5, -3, 2]])
def test_negative_base(seed):
    outputs = run([-2, -2, -2], [1, 2, 3], seed, "b")
    assert_numbers(outputs, y=[-2, 4, -8], b_grad=np.multiply([1, -4, 12], seed))


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_integer_exponent(dtype):
    model = MODEL % ("N", f"{dtype}[N]")
    e = np.array([0, 1, 2, 3, 3], dtype)
    outputs = pullback(model, "y", "b")(b=[0, 0, 0, 0, -2], e=e, y_grad=[1, 2, 3, 4, 5])
    assert_numbers(outputs, y=[1, 0, 0, 0, -8], b_grad=[0, 2, 0, 0, 60])
    b = [0.5, -1.5, 2, -0.25, 3]
    assert_gradient(model, ["y"], ["b"], {"b": b, "e": e}, second_order=True)


@pytest.mark.parametrize(
    ("b", "e"), [("2,3", "float[3]"), ("3", "float[2,1]"), ("A,B", "float[B]"), ("1", "float")]
)
def test_broadcasting(b, e):
    model = (MODEL % (b, e)).replace("float[N] y", "float y" if b == "1" else "float[P,Q] y")
    if b == "1":
        model = model.replace("float y", "float[1] y")
    rng = np.random.default_rng(26)
    sizes = {"A": 2, "B": 3}
    shapes = [
        [sizes.get(d) or int(d) for d in text.strip("float[]").split(",") if d] for text in (b, e)
    ]
    inputs = {
        "b": rng.uniform(0.25, 2, shapes[0]).astype(np.float32),
        "e": rng.uniform(-2, 2, shapes[1]).astype(np.float32),
    }
    assert_gradient(model, ["y"], ["b", "e"], inputs, second_order=True)


def test_power_in_a_loop_from_zero():
    model = """(int64 n, float[3] x, float e) => (float[3] y) {
      y = Loop(n, , x) <body = body (int64 i, bool c, float[3] v) => (bool go, float[3] u) {
        go = Identity(c)
        u = Pow(v, e)
      }>
    }"""
    outputs = pullback(model, "y", "x e")(n=2, x=[0, 2, 1], e=2, y_grad=[1, 10, 100])
    # y = x^(e·e): dy/dx = e²·x^(e²-1), dy/de = 2e·log(x)·x^(e²).
    de = 10 * 4 * np.log(2) * 16
    assert_numbers(outputs, y=[0, 16, 1], x_grad=[0, 320, 400], e_grad=de)
