import itertools

import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, judge
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import gradient

ELEMENTS = {"i": [[0, -1, 1], [1, 0, -2]], "u": np.array([[3, 4, 5], [6, 7, 8]], np.float32)}
UPDATES = "k = Mul(u, u)"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_elements(reduction, kind):
    body = f'{UPDATES} y = ScatterElements<reduction = "{reduction}">(h, i, k)'
    arguments = "int64[2,3] i, float[2,N] u"
    judge(body, kind, arguments, wrt=["x", "u"], **ELEMENTS)
    judge(body, kind, arguments, wrt=["u"], second_order=False, **ELEMENTS)
    judge(body, kind, arguments, wrt=["x"], second_order=False, **ELEMENTS)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_elements_along_an_axis(reduction, axis):
    body = f'{UPDATES} y = ScatterElements<axis = {axis}, reduction = "{reduction}">(h, i, k)'
    u = np.array([[0.5, 3]], np.float32)
    judge(body, "float[A,B]", "int64[1,2] i, float[M,N] u", wrt=["x", "u"], i=[[2, -3]], u=u)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_places_that_are_named_twice(reduction):
    body = f'{UPDATES} y = ScatterElements<axis = 1, reduction = "{reduction}">(h, i, k)'
    u = np.array([[0.5, 3, 1.5, -2]], np.float32)
    judge(body, "float[2,3]", "int64[1,4] i, float[1,4] u", wrt=["x", "u"], i=[[2, 2, 0, -1]], u=u)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd(reduction, kind):
    body = f'{UPDATES} y = ScatterND<reduction = "{reduction}">(h, i, k)'
    rows, pairs = [[1]], [[0, 1], [-1, 2]]
    judge(body, kind, "int64[1,1] i, float[1,3] u", wrt=["x", "u"], i=rows, u=X[:1] + 1)
    judge(body, kind, "int64[2,2] i, float[k] u", wrt=["x", "u"], i=pairs, u=X[0, :2])


def _slopes(reduction, x, u):
    """Return dx and du for all u scattered to the one element x, cotangent 1."""
    count = len(u)
    text = f"""(float[1] x, int64[{count}] i, float[{count}] u) => (float y) {{
      s = ScatterElements<reduction = "{reduction}">(x, i, u)
      y = ReduceSum<keepdims = 0>(s)
    }}"""
    got = compile(gradient(parse(text), of="y", wrt=["x", "u"]))(
        x=np.array([x], np.float32), i=np.zeros(count, np.int64), u=np.array(u, np.float32)
    )
    return [float(got["x_grad"][0]), *map(float, got["u_grad"])]


def test_products_with_zeros():
    assert _slopes("mul", 2, [3, 5]) == [15, 10, 6]
    assert _slopes("mul", 0, [3, 5]) == [15, 0, 0]
    assert _slopes("mul", 2, [0, 5]) == [0, 10, 0]
    assert _slopes("mul", 0, [0, 5]) == [0, 0, 0]
    assert _slopes("mul", 2, [0, 0]) == [0, 0, 0]


@pytest.mark.parametrize("call", ["ScatterElements", "ScatterND"])
def test_second_derivatives_of_products_with_zeros(call):
    text = f"""(float[2] x, int64[n,m] i, float[n] u) => (float[2] y) {{
      flat = Constant<value_ints = [-1]>() j = Reshape(i, flat)
      y = {call}<reduction = "mul">(x, {"j" if call == "ScatterElements" else "i"}, u)
    }}"""
    for x, u in itertools.product([[2, 3], [0, 3]], [[5, 2], [5, 0], [0, 0]]):
        feeds = {"x": np.array(x, np.float32), "u": np.array(u, np.float32)}
        feeds["i"] = np.zeros((2, 1), np.int64)
        assert_gradient(text, ["y"], ["x", "u"], feeds, second_order=True)


def test_those_that_tie_share():
    assert _slopes("max", 2, [2, 1]) == [0.5, 0.5, 0]
    assert _slopes("max", 1, [3, 3]) == [0, 0.5, 0.5]
    assert _slopes("min", 1, [1, 1, 2]) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert _slopes("min", 4, [2]) == [0, 1]
