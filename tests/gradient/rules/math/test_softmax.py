import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS, X, judge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_any_axis(operator, kind):
    judge(f"y = {operator}(h)", kind)
    judge(f"y = {operator}<axis = 0>(h)", kind)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_the_middle_axis_of_three(operator):
    judge(f"y = {operator}<axis = 1>(h)", "float[1,2,3]", x=X[None])


def test_what_is_masked_out_gets_nothing():
    model = "(float[3] x) => (float[3] y) { y = Softmax(x) }"
    got = gradients(model, {"x": [0, -np.inf, 0]}, [1, 7, 2])
    np.testing.assert_allclose(got["x"], [-0.25, 0, 0.25])
