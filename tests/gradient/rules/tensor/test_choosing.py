import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, judge
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import gradient


@pytest.mark.parametrize("kind", KINDS)
def test_where_broadcasts(kind):
    body = "k = Mul(z, z) y = Where(c, h, k)"
    condition = np.array([[True], [False]])
    for z in (X[1], X[:, :1], np.float32(0.5), X[None]):
        other = f"float[{','.join('PQR'[: np.ndim(z)])}]" if np.ndim(z) else "float"
        judge(body, kind, f"{other} z, bool[2,1] c", wrt=["x", "z"], z=z, c=condition)
    judge(body, kind, "float[3] z, bool[K,L] c", wrt=["z"], z=X[1], c=condition)


def test_where_lets_no_nan_through():
    model = """(float[4] x) => (float[4] y) {
      zero = Constant<value_float = 0.0>()
      positive = Greater(x, zero)
      root = Sqrt(x)
      y = Where(positive, root, zero)
    }"""
    x = np.array([-1, 4, 0.25, -3], np.float32)
    got = assert_gradient(model, ["y"], ["x"], {"x": x})
    assert got["x"][[0, 3]].tolist() == [0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu(upper, kind):
    judge(f"y = Trilu<upper = {upper}>(h)", kind)
    for k in (-1, 0, 1, 5):
        judge(f"y = Trilu<upper = {upper}>(h, k)", kind, "int64 k", k=np.array(k))


@pytest.mark.parametrize("kind", KINDS)
def test_cast_between_floats(kind):
    judge("y = Cast<to = 11>(h)", kind, result="double")
    judge("y = CastLike(h, z)", kind, "double[1] z", result="double", z=np.zeros(1))
    judge("y = Cast<to = 1>(h)", kind)


def test_cast_to_half_precision_keeps_the_type_of_the_gradient():
    model = "(float16[2] x) => (float[2] y) { c = Cast<to = 1>(x) y = Mul(c, c) }"
    got = assert_gradient(model, ["y"], ["x"], {"x": np.array([0.5, 2], np.float16)})
    assert got["x"].dtype == np.float16


def test_no_gradient_through_a_boolean():
    """Conformance case 33: x times whether it is not zero."""
    model = """(float[3] x) => (float y) {
      b = Cast<to = 9>(x)
      f = Cast<to = 1>(b)
      p = Mul(x, f)
      y = ReduceSum<keepdims = 0>(p)
    }"""
    got = compile(gradient(parse(model), of="y", wrt="x"))(x=np.array([0, 2, -3], np.float32))
    assert got["x_grad"].tolist() == [0, 1, 1]


def test_no_gradient_through_an_integer():
    """Conformance case 33: a number chosen by another one, rounded."""
    model = """(float x, float[3] w) => (float y) {
      f = Floor(x)
      i = Cast<to = 7>(f)
      c = Gather(w, i)
      y = Mul(c, x)
    }"""
    w = np.array([1, 10, 100], np.float32)
    got = assert_gradient(model, ["y"], ["x", "w"], {"x": np.float32(1.5), "w": w})
    np.testing.assert_allclose(got["w"] / got["x"], [0, 0.15, 0], rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("indices", ["int64", "int32", "float"])
def test_one_hot_has_a_gradient_for_its_values(indices, axis):
    types = {"int64": np.int64, "int32": np.int32, "float": np.float32}
    k = np.array([0, -1, 2, 7, 2]).astype(types[indices])
    body = f"""depth = Constant<value_int = 3>() k = Cast<to = 7>(i)
      values = Mul(x, x) y = OneHot<axis = {axis}>(k, depth, values)"""
    x = np.array([0.5, -2], np.float32)
    model = f"(float[2] x, {indices}[5] i) => (float[M,N] y) {{ {body} }}"
    assert_gradient(model, ["y"], ["x"], {"x": x, "i": k}, second_order=True)


def test_one_hot_with_a_depth_at_run_time():
    body = "y = OneHot(i, d, h)"
    for depth in (np.array([4]), np.array([1])):
        x = np.array([0.5, -2], np.float32)
        judge(body, "float[2]", "int64[2,2] i, int64[1] d", i=[[0, 1], [2, 3]], d=depth, x=x)
