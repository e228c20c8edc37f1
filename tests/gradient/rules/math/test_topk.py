import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, judge
from tests.judge import assert_gradient


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attributes", ["", "<largest = 0>", "<sorted = 0>", "<axis = 0>"])
def test_values(attributes, kind):
    judge(f"y, i = TopK{attributes}(h, k)", kind, "int64[1] k", k=[2])


def test_indices_alone_have_no_gradient():
    model = """(float[5] x) => (float[2] y) <int64[1] k = {2}> {
      v, i = TopK(x, k)
      f = Cast<to = 1>(i)
      y = Mul(v, f)
    }"""
    x = np.array([3, 1, 4, 1.5, 5], np.float32)
    got = assert_gradient(model, ["y"], ["x"], {"x": x})
    assert (got["x"] != 0).tolist() == [False, False, True, False, True]
