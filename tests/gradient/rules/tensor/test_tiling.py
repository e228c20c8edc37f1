import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, ints, judge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeats", [[1, 1], [2, 1], [1, 3], [3, 2], [0, 2]])
def test_tile(repeats, kind):
    judge(f"{ints(r=repeats)} y = Tile(h, r)", kind)
    judge("y = Tile(h, r)", kind, "int64[2] r", r=repeats)


@pytest.mark.parametrize("kind", ["float", "float[]"])
def test_a_scalar(kind):
    judge("y = Tile(h, r)", kind, "int64[0] r", r=[], x=np.array(1.5, np.float32))
