import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS, judge
from tests.judge import assert_gradient


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_sum(axis, exclusive, reverse):
    call = f"CumSum<exclusive = {exclusive}, reverse = {reverse}>"
    judge(f"a = Constant<value_int = {axis}>() y = {call}(h, a)")


@pytest.mark.parametrize("kind", KINDS)
def test_an_axis_at_run_time(kind):
    judge("y = CumSum(h, a)", kind, "int64 a", a=np.array(-2))


# No zero, one of them, at the end and in between, two and three.
ZEROS = np.array(
    [[0.5, -1.25, 2], [0, 1.5, -0.75], [1.5, 0, -0.75], [2, 0, 0], [0, -2, 0], [0, 0, 0]],
    np.float32,
)


@pytest.mark.parametrize("shape", ["[6,3]", "[A,B]", "[]"])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_product(axis, exclusive, reverse, shape):
    call = f"CumProd<exclusive = {exclusive}, reverse = {reverse}>"
    judge_products(f"a = Constant<value_int = {axis}>() y = {call}(h, a)", shape)


def judge_products(body, shape="[A,B]", arguments="", x=ZEROS, **inputs):
    type_ = {"float32": "float", "float64": "double", "float16": "float16"}[x.dtype.name]
    head, first = f"{type_}{shape} x", "h = Identity(x)"
    inputs = {"x": x} | inputs
    if shape == "[]":
        head, first = f"{type_}[N] x, int64[R] shape", "h = Reshape(x, shape)"
        inputs |= {"x": x.reshape(-1), "shape": np.array(x.shape)}
    model = f"({head}{arguments}) => ({type_}[N] z) <int64[1] flat = {{-1}}> {{"
    model += f"{first} {body} z = Reshape(y, flat) }}"
    assert_gradient(model, ["z"], ["x"], inputs, opset=26, second_order=True)


def test_a_product_along_an_axis_at_run_time():
    judge_products("y = CumProd(h, a)", arguments=", int64 a", a=np.array(-2))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_products_of_other_types(dtype):
    judge_products("a = Constant<value_int = 1>() y = CumProd(h, a)", x=ZEROS.astype(dtype))


def test_products_of_nothing():
    model = "(float[N,3] x) => (float[N,3] y) <int64 a = {0}> { y = CumProd(x, a) }"
    assert gradients(model, {"x": ZEROS[:0]}, opset=26)["x"].shape == (0, 3)
