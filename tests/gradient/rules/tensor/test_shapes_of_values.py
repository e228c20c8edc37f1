"""What depends on a shape alone, or on positions, takes and gives no gradient."""

import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, judge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        "s = Shape(h) f = Cast<to = 1>(s) n = ReduceSum(f) y = Mul(h, n)",
        "s = Size(h) f = Cast<to = 1>(s) y = Mul(h, f)",
        "s = Shape(h) z = ConstantOfShape(s) y = Sub(z, h)",
        "p = NonZero(h) f = Cast<to = 1>(p) n = ReduceMax(f) y = Mul(h, n)",
    ],
)
def test_shapes_and_positions(body, kind):
    judge(body, kind)


def test_the_unit_matrix_of_a_shape():
    x = np.array([[0.5, -1], [2, 3]], np.float32)
    judge("e = EyeLike(h) y = Mul(e, h)", "float[2,2]", x=x)
