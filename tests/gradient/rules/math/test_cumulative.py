import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, judge


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_sum(axis, exclusive, reverse):
    call = f"CumSum<exclusive = {exclusive}, reverse = {reverse}>"
    judge(f"a = Constant<value_int = {axis}>() y = {call}(h, a)")


@pytest.mark.parametrize("kind", KINDS)
def test_an_axis_at_run_time(kind):
    judge("y = CumSum(h, a)", kind, "int64 a", a=np.array(-2))
