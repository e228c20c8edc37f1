import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import assert_gradient, parse

X = np.array([[2, 1, 3], [4, 3, 1], [2, 1, 3]], np.float32)
APART = np.array([[2, 1.5, 3], [4, 0.5, 1]], np.float32)


@pytest.mark.parametrize("kind", ["2,3", "A,B"])
@pytest.mark.parametrize("attributes", ["", "sorted = 0", "axis = 0", "axis = -1, sorted = 0"])
@pytest.mark.parametrize("outputs", ["u", "u, i, j, c", "u, , j"])
def test_different_elements(attributes, outputs, kind):
    call = f"Unique<{attributes}>(x)".replace("<>", "")
    model = f"""(float[{kind}] x) => (float[N] y) <int64[1] n = {{-1}}> {{
      {outputs} = {call} s = Mul(u, u) y = Reshape(s, n)
    }}"""
    assert_gradient(model, ["y"], ["x"], {"x": APART}, second_order=True)


def test_the_first_of_equal_elements():
    model = "(float[A,B] x) => (float[N] y) { y = Unique(x) }"
    got = gradients(model, {"x": X}, [5, 6, 7, 8])["x"]
    np.testing.assert_array_equal(got, [[6, 5, 7], [8, 0, 0], [0, 0, 0]])


def test_the_first_of_equal_rows():
    model = "(float[A,B] x) => (float[N,B] y) { y = Unique<axis = 0>(x) }"
    got = gradients(model, {"x": X}, [[5, 6, 7], [8, 9, 10]])["x"]
    np.testing.assert_array_equal(got, [[5, 6, 7], [8, 9, 10], [0, 0, 0]])


def test_elements_by_way_of_their_positions():
    """`u[j]` is x again, so that the first of equal elements gets the gradients of all."""
    model = """(float[N] x) => (float[M] y) {
      u, i, j = Unique(x) y = Gather(u, j)
    }"""
    got = gradients(model, {"x": [2, 1, 2, 3]}, [5, 6, 7, 8])["x"]
    np.testing.assert_array_equal(got, [12, 6, 0, 8])


@pytest.mark.parametrize("axis", ["", "<axis = 1>"])
@pytest.mark.parametrize("dtype", ["double", "float16"])
def test_other_types(dtype, axis):
    model = f"({dtype}[2,3] x) => ({dtype} y) {{ y = Unique{axis}(x) }}"
    model = parse(model)
    model.graph.outputs[0].shape = None
    x = APART.astype({"double": np.float64, "float16": np.float16}[dtype])
    assert_gradient(model, ["y"], ["x"], {"x": x})


def test_nothing():
    model = "(float[N] x) => (float[M] y) { y = Unique(x) }"
    assert gradients(model, {"x": np.zeros(0, np.float32)})["x"].shape == (0,)
