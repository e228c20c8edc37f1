import numpy as np
import pytest
from tests.gradient.rules.exact import gradients

from whileback.errors import WhilebackWarning

FLOAT, INT32 = 1, 6


def test_the_same_type():
    model = f"""(float[N] x) => (float[N] y) {{
      z = BitCast<to = {FLOAT}>(x) y = Mul(z, x)
    }}"""
    slopes = gradients(model, {"x": [1, -2]}, [3, 5], opset=26)["x"]
    np.testing.assert_array_equal(slopes, [2 * 1 * 3, 2 * -2 * 5])


def test_there_and_back():
    model = f"""(float[N] x) => (float[N] y) {{
      z = BitCast<to = {INT32}>(x) y = BitCast<to = {FLOAT}>(z)
    }}"""
    with pytest.warns(WhilebackWarning, match="No value in of= depends on 'x'"):
        assert not gradients(model, {"x": [1, 2]}, opset=26)["x"].any()
