import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, judge
from tests.judge import assert_gradient

EVERYWHERE = "Atan Asinh Cos Cosh Erf Exp Sin Sinh Tan".split()
INSIDE_ONE = "Acos Asin Atanh".split()
SMALL = np.array([[0.5, -0.9, 0.2], [-0.7, 0.8, 0.3]], np.float32)


@pytest.mark.parametrize("operator", EVERYWHERE + INSIDE_ONE)
def test_functions_of_one_variable(operator):
    judge(f"y = {operator}(h)", x=SMALL)


@pytest.mark.parametrize("operator", ["Log", "Reciprocal", "Sqrt"])
def test_functions_of_positive_numbers(operator):
    judge(f"y = {operator}(h)")


def test_acosh_from_one_on():
    judge("one = Constant<value_float = 1.1>() i = Add(h, one) y = Acosh(i)")


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_make_no_difference(kind):
    judge("i = Exp(h) j = Log(i) k = Sqrt(j) y = Reciprocal(k)", kind)


@pytest.mark.parametrize("type_", ["float16", "double"])
def test_other_types(type_):
    model = f"({type_}[3] x) => ({type_}[3] y) {{ a = Exp(x) b = Sqrt(a) y = Sin(b) }}"
    x = np.array([0.5, -1, 0.25], "float64" if type_ == "double" else type_)
    assert assert_gradient(model, ["y"], ["x"], {"x": x})["x"].dtype == x.dtype
