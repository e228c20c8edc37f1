import pytest
from tests.gradient.rules.tensor.squares import KINDS, judge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, -1])
def test_flatten(axis, kind):
    judge(f"y = Flatten<axis = {axis}>(h)", kind)
