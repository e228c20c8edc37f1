import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS
from tests.judge import assert_gradient

PLAIN = (
    "Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Sigmoid Softplus Softsign Tanh "
    "ThresholdedRelu"
).split()
WITH_ATTRIBUTES = (
    "Celu<alpha = 0.5>",
    "Elu<alpha = 0.3>",
    "Elu<alpha = -0.3>",
    'Gelu<approximate = "tanh">',
    "HardSigmoid<alpha = 0.6, beta = 0.3>",
    "LeakyRelu<alpha = 0.3>",
    "LeakyRelu<alpha = -0.3>",
    "Selu<alpha = 1.2, gamma = 0.7>",
    "Selu<alpha = -1.2, gamma = 0.7>",
    "ThresholdedRelu<alpha = 0.2>",
)
X = np.array([[-3.5, -0.75, -0.25], [0.375, 1.25, 4.5]], np.float32)


@pytest.mark.parametrize("call", [f"{operator}<>" for operator in PLAIN] + list(WITH_ATTRIBUTES))
def test_activations(call):
    model = f"(float[2,3] x) => (float[2,3] y) {{ s = Sin(x) a = {call}(x) y = Mul(a, s) }}"
    assert_gradient(model.replace("<>", ""), ["y"], ["x"], {"x": X}, second_order=True)


@pytest.mark.parametrize("call", ["Swish", "Swish<alpha = 0.4>"])
def test_swish(call):
    model = f"(float[2,3] x) => (float[2,3] y) {{ y = {call}(x) }}"
    assert_gradient(model, ["y"], ["x"], {"x": X}, opset=24, second_order=True)


@pytest.mark.parametrize(
    ("call", "points", "slopes"),
    [
        ("Relu", [-1, 0, 1], [0, 0, 1]),
        ("LeakyRelu<alpha = 0.25>", [-1, 0, 1], [0.25, 0.25, 1]),
        ("Elu<alpha = 0.25>", [0, 1], [0.25, 1]),
        ("Celu", [0, 1], [1, 1]),
        ("ThresholdedRelu", [0.5, 1, 1.5], [0, 0, 1]),
        ("HardSigmoid<alpha = 0.5, beta = 0.5>", [-1, 0, 1], [0, 0.5, 0]),
        ("HardSwish", [-3, 3], [0, 1]),
    ],
)
def test_kinks(call, points, slopes):
    """Conformance case 24, for all activations that have a kink."""
    model = f"(float[N] x) => (float[N] y) {{ y = {call}(x) }}"
    got = gradients(model, {"x": points}, 3)
    np.testing.assert_allclose(got["x"], np.multiply(slopes, 3), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 1), (2, 3)])
def test_prelu_sums_over_what_the_slope_is_broadcast_to(shape):
    dims = ",".join(map(str, shape))
    slope = np.linspace(0.2, 0.6, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    for kind in KINDS[:3]:
        model = f"({kind} x, float[{dims}] s) => ({kind} y) {{ y = PRelu(x, s) }}"
        assert_gradient(model, ["y"], ["x", "s"], {"x": X, "s": slope}, second_order=True)


def test_prelu_at_zero():
    model = "(float[3] x, float[1] s) => (float[3] y) { y = PRelu(x, s) }"
    got = gradients(model, {"x": [-2, 0, 3], "s": [0.5]}, [1, 10, 100])
    assert got["x"].tolist() == [0.5, 5, 100]
    assert got["s"].tolist() == [-2]


@pytest.mark.parametrize("operator", ["Relu", "Elu", "Sigmoid", "Softplus", "Gelu", "HardSwish"])
def test_large_numbers_stay_finite(operator):
    model = f"(float[2] x) => (float[2] y) {{ y = {operator}(x) }}"
    assert np.isfinite(gradients(model, {"x": [-1e4, 1e4]})["x"]).all()
