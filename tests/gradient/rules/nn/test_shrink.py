import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import assert_gradient


@pytest.mark.parametrize(
    "attributes", ["", "<lambd = 0.3, bias = 0.1>", "<lambd = -0.3>", "<bias = 1.0>"]
)
def test_shrink(attributes):
    model = f"""(float[5] x) => (float[5] y) {{
      s = Sin(x)
      a = Shrink{attributes}(x)
      y = Mul(a, s)
    }}"""
    x = np.array([-3.5, -0.25, 0.1, 0.75, 2.0], np.float32)
    assert_gradient(model, ["y"], ["x"], {"x": x}, second_order=True)


def test_at_the_limits_it_is_zero():
    model = "(float[4] x) => (float[4] y) { y = Shrink(x) }"
    got = gradients(model, {"x": [-0.5, 0, 0.5, 1]}, [2, 3, 5, 7])
    assert got["x"].tolist() == [0, 0, 0, 7]
