import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, ints, judge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [[2, 3], [2, 1], [1], [4, 1, 3], [2, 1, 1, 1, 1]])
def test_expand(shape, kind):
    judge(f"{ints(s=shape)} y = Expand(h, s)", kind)
    judge("y = Expand(h, s)", kind, "int64[k] s", s=shape)


@pytest.mark.parametrize("kind", ["float[2,1]", "float[B,1]", "float[A,B]", "float[]"])
def test_expand_of_an_axis_of_one(kind):
    judge(f"{ints(s=[2, 4])} y = Expand(h, s)", kind, x=X[:, :1])
    judge("y = Expand(h, s)", kind, "int64[2] s", s=[1, 4], x=X[:, :1])
    judge("y = Expand(h, s)", kind, "int64[2] s", s=[2, 0], x=X[:, :1])


@pytest.mark.parametrize("kind", ["float", "float[]"])
def test_a_scalar(kind):
    judge(f"{ints(s=[2, 3])} y = Expand(h, s)", kind, x=np.array(1.5, np.float32))
