import numpy as np
import pytest
from tests.judge import assert_gradient


@pytest.mark.parametrize("limit", [4.1, 0.3, -2])
@pytest.mark.parametrize("type_", ["float", "double"])
def test_range(type_, limit):
    model = f"""({type_} start, {type_} limit, {type_} delta) => ({type_}[N] y) {{
      a = Mul(start, start)
      d = Mul(delta, delta)
      y = Range(a, limit, d)
    }}"""
    dtype = {"float": np.float32, "double": np.float64}[type_]
    inputs = {"start": 0.5, "limit": limit, "delta": 0.75}
    inputs = {name: np.array(value, dtype) for name, value in inputs.items()}
    assert_gradient(model, ["y"], ["start", "delta"], inputs, second_order=True)
