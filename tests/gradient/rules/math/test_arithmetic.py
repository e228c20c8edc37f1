import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS, X, judge
from tests.judge import assert_gradient


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
def test_binary_operators_sum_over_what_they_broadcast(operator, kind):
    for z in (X[1], X[:, :1], np.float32(0.5), np.array([[[2]], [[-3]]], np.float32)):
        other = f"float[{','.join(map(str, z.shape))}]" if np.ndim(z) else "float"
        judge(f"k = Exp(z) y = {operator}(h, k)", kind, f"{other} z", wrt=["x", "z"], z=z)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
def test_the_order_of_the_inputs(operator):
    judge(f"k = Exp(z) y = {operator}(k, h)", "float[A,B]", "float[3] z", wrt=["x", "z"], z=X[1])


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
def test_one_value_twice(operator):
    judge(f"y = {operator}(h, h)")


def test_only_one_input_active():
    for operator in ("Add", "Sub", "Mul", "Div"):
        judge(f"y = {operator}(h, z)", "float[2,3]", "float[3] z", z=X[1])
        judge(f"y = {operator}(z, h)", "float[2,3]", "float[3] z", z=X[1])


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (0,)])
def test_sizes_zero_and_one(shape):
    model = "(float[N,M] x, float[M] z) => (float[N,M] y) { y = Mul(x, z) }"
    model = model if len(shape) == 2 else model.replace("N,M", "M")
    x, z = np.ones(shape, np.float32), np.full(shape[-1:], 2, np.float32)
    got = gradients(model, {"x": x, "z": z})
    assert got["x"].shape == shape
    assert got["z"].tolist() == [shape[0] if len(shape) == 2 else 1.0] * shape[-1]


def test_neg_and_abs():
    judge("y = Neg(h)")
    assert_gradient("(float[5] x) => (float[5] y) { y = Abs(x) }", ["y"], ["x"])
    model = "(float[3] x) => (float[3] y) { y = Abs(x) }"
    assert gradients(model, {"x": [-2, 0, 3]}, [2, 3, 5])["x"].tolist() == [-2, 0, 5]


def test_mod_of_floats():
    model = """(float[2,3] x, float[3] z) => (float[2,3] y) {
      h = Mul(x, x)
      y = Mod<fmod = 1>(h, z)
    }"""
    z = np.array([0.7, -0.45, 1.3], np.float32)
    assert_gradient(model, ["y"], ["x", "z"], {"x": X, "z": z}, second_order=True, kinks=True)


def test_mod_counts_how_often_the_divisor_fits():
    model = "(float[3] x, float[3] z) => (float[3] y) { y = Mod<fmod = 1>(x, z) }"
    got = gradients(model, {"x": [7, -7, 1], "z": [3, 3, 2]}, [1, 10, 100])
    assert got["x"].tolist() == [1, 10, 100]
    assert got["z"].tolist() == [-2, 20, 0]


@pytest.mark.parametrize("operator", ["Sum", "Mean"])
def test_sum_and_mean_of_one_input_and_of_three(operator):
    """Conformance case S12."""
    judge(f"y = {operator}(h)")
    z, w = X[1], X[:, :1]
    judge(
        f"k = Exp(z) y = {operator}(h, k, w)",
        "float[2,3]",
        "float[3] z, float[2,1] w",
        wrt=["x", "z", "w"],
        z=z,
        w=w,
    )
