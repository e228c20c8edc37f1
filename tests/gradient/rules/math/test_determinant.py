import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import assert_gradient


@pytest.mark.parametrize("kind", ["3,3", "N,N"])
def test_one_matrix(kind):
    model = f"(float[{kind}] x) => (float y) {{ y = Det(x) }}"
    x = np.array([[1, 2, -1], [0.5, -1, 2], [3, 0.25, 1]], np.float32)
    assert_gradient(model, ["y"], ["x"], {"x": x}, second_order=True)


@pytest.mark.parametrize("size", [1, 2])
def test_a_batch(size):
    model = f"(float[2,3,{size},{size}] x) => (float[2,3] y) {{ y = Det(x) }}"
    assert_gradient(model, ["y"], ["x"], second_order=True)


def test_the_gradient_is_the_determinant_times_the_transposed_inverse():
    """Conformance case H4."""
    x = np.array([[2, 1], [5, 4]], np.float32)
    got = gradients("(float[2,2] x) => (float y) { y = Det(x) }", {"x": x}, 2)
    np.testing.assert_allclose(got["x"], 2 * np.linalg.det(x) * np.linalg.inv(x).T, rtol=1e-5)


def test_singular_matrices():
    model = "(float[2,2] x) => (float y) { y = Det(x) }"
    assert gradients(model, {"x": [[1, 2], [2, 4]]})["x"].tolist() == [[4, -2], [-2, 1]]
    assert gradients(model, {"x": [[0, 0], [0, 0]]})["x"].tolist() == [[0, 0], [0, 0]]
