"""Conformance case S4: AveragePool with `ceil_mode`: windows that stick out average the rest."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(float[%s] x) => (float[%s] y) { y = AveragePool<%s>(x) }"""
CASE = MODEL % ("1,1,4,4", "1,1,2,2", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1")
X = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def spread(seed):
    """Every window hands each of its elements an equal share."""
    dx = np.zeros((4, 4))
    for i in range(2):
        for j in range(2):
            rows, columns = slice(2 * i, min(2 * i + 3, 4)), slice(2 * j, min(2 * j + 3, 4))
            dx[rows, columns] += seed[i][j] / dx[rows, columns].size
    return [[dx.tolist()]]


def test_ones():
    outputs = pullback(CASE, "y", "x")(x=X, y_grad=np.ones((1, 1, 2, 2), np.float32))
    assert_numbers(outputs, y=[[[[6, 7.5], [12, 13.5]]]], x_grad=spread([[1, 1], [1, 1]]))
    assert outputs["x_grad"].sum() == pytest.approx(4)
    np.testing.assert_allclose(
        outputs["x_grad"][0, 0, 2], [0.2778, 0.2778, 0.6944, 0.4167], atol=5e-5
    )


def test_seed_that_is_not_uniform():
    seed = [[1, 10], [100, 1000]]
    outputs = pullback(CASE, "y", "x")(x=X, y_grad=np.float32([[seed]]))
    assert_numbers(outputs, x_grad=spread(seed))


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize(
    ("shape", "out", "attributes"),
    [
        ("1,2,5", "1,2,K", "kernel_shape = [2], strides = [2]"),
        ("N,C,H,W", "N,C,P,Q", "kernel_shape = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1]"),
        ("N,C,H,W", "N,C,P,Q", "kernel_shape = [2, 3], dilations = [2, 1], strides = [1, 2]"),
        ("N,1,4,3,5", "N,1,P,Q,R", "kernel_shape = [3, 2, 2], strides = [2, 2, 2]"),
    ],
)
def test_attributes(shape, out, attributes, ceil, include):
    attributes += f", ceil_mode = {ceil}, count_include_pad = {include}"
    sizes = {"N": 2, "C": 2, "H": 6, "W": 5}
    dims = [sizes[d] if d in sizes else int(d) for d in shape.split(",")]
    x = np.random.default_rng(4).normal(size=dims).astype(np.float32)
    assert_gradient(MODEL % (shape, out, attributes), ["y"], ["x"], {"x": x}, directions=2)
