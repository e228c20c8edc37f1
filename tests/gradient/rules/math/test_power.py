import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS, X, judge
from tests.judge import assert_gradient

BOTH = "(float[N] b, float[N] e) => (float[N] y) { y = Pow(b, e) }"


@pytest.mark.parametrize("kind", KINDS)
def test_base_and_exponent(kind):
    for z in (X[1], X[:, :1], np.float32(0.5)):
        other = f"float[{','.join(map(str, z.shape))}]" if np.ndim(z) else "float"
        judge("y = Pow(h, z)", kind, f"{other} z", wrt=["x", "z"], z=z)


@pytest.mark.parametrize("exponent", [2.0, 3.0, -1.0, 0.25, 1.0])
def test_known_exponents(exponent):
    judge(f"e = Constant<value_float = {exponent}>() y = Pow(h, e)")
    assert_gradient(
        f"(float[3] x) => (float[3] y) <float e = {{{exponent}}}> {{ a = Abs(x) y = Pow(a, e) }}",
        ["y"],
        ["x"],
        second_order=exponent != 1.0,
    )


def test_a_known_exponent_that_widens_the_base():
    model = "(float x) => (float[1] y) <float[1] e = {3}> { y = Pow(x, e) }"
    assert gradients(model, {"x": 2})["x"] == 12


def test_an_integer_exponent_has_no_gradient():
    model = "(float[3] x, int64[3] e) => (float[3] y) { y = Pow(x, e) }"
    got = gradients(model, {"x": [0, -2, 3], "e": np.array([1, 2, 3])})
    assert got["x"].tolist() == [1, -4, 27]


def test_an_exponent_of_another_type():
    model = "(double[3] x, float[3] e) => (double[3] y) { a = Exp(x) y = Pow(a, e) }"
    got = assert_gradient(model, ["y"], ["x", "e"])
    assert (got["x"].dtype, got["e"].dtype) == (np.float64, np.float32)


def test_base_zero():
    """Conformance case 26."""
    got = gradients(BOTH, {"b": [0, 2], "e": [1, 1]})
    np.testing.assert_allclose(got["e"], [0, 1.386294], rtol=1e-6)
    assert got["b"].tolist() == [1, 1]
    assert gradients(BOTH, {"b": [0, 0, 0], "e": [0, 1, 2]})["b"].tolist() == [0, 1, 0]
    assert gradients(BOTH, {"b": [-2, -2, -2], "e": [1, 2, 3]})["b"].tolist() == [1, -4, 12]


@pytest.mark.parametrize(("exponent", "slope"), [(0, 0), (1, 1), (2, 0)])
def test_base_zero_and_a_known_exponent(exponent, slope):
    model = f"(float[1] x) => (float[1] y) <float e = {{{exponent}}}> {{ y = Pow(x, e) }}"
    assert gradients(model, {"x": [0]}, 3)["x"].tolist() == [3 * slope]


def test_zero_to_the_power_of_zero():
    """Conformance case H9."""
    got = gradients(BOTH, {"b": [0], "e": [0]})
    assert (got["b"].tolist(), got["e"].tolist()) == ([0], [0])


def test_a_negative_base_has_no_slope_towards_its_exponent():
    assert np.isnan(gradients(BOTH, {"b": [-2], "e": [2]})["e"]).all()
