import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import values
from tests.judge import assert_gradient, parse

from whileback.errors import UnsupportedError
from whileback.gradient import vjp

TYPES = {"float32": "float", "float64": "double", "float16": "float16"}


def judge(attributes, cache, update, dims, start=None, dtype="float32"):
    inputs = {"x": values(*cache, dtype=dtype), "u": values(*update, seed=1, dtype=dtype)}
    type_ = TYPES[dtype]
    head, write = f"{type_}[{dims[0]}] x, {type_}[{dims[1]}] u", ""
    if start is not None:
        inputs["w"] = np.array(start)
        head, write = f"{head}, int64[B] w", ", w"
    call = f"TensorScatter<{attributes}>(x, u{write})".replace("<>", "")
    # Squares, so that the gradients depend on the inputs.
    model = f"""({head}) => ({type_}[N] y) <int64[1] n = {{-1}}> {{
      z = {call} s = Mul(z, z) y = Reshape(s, n)
    }}"""
    assert_gradient(model, ["y"], ["x", "u"], inputs, opset=24, second_order=True)


@pytest.mark.parametrize("start", [None, [1, 2]])
@pytest.mark.parametrize("attributes", ["", 'mode = "circular"', "axis = 2"])
def test_four_axes(attributes, start):
    judge(attributes, (2, 2, 4, 3), (2, 2, 2, 3), ("2,2,4,3", "2,2,2,3"), start)
    judge(attributes, (2, 2, 4, 3), (2, 2, 2, 3), ("B,H,S,D", "B,H,T,D"), start)


@pytest.mark.parametrize("axis", [1, -1, -2])
def test_other_axes(axis):
    update = [2, 4, 4]
    update[axis] = 2
    judge(f"axis = {axis}", (2, 4, 4), tuple(update), ("B,S,D", "B,T,E"), [2, 1])


def test_around_the_end():
    judge('mode = "circular"', (3, 4, 2), (3, 3, 2), ("B,S,D", "B,T,D"), [3, 1, 6])


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_types(dtype):
    judge("", (1, 4, 2), (1, 1, 2), ("1,4,2", "1,1,2"), [2], dtype)


@pytest.mark.parametrize(("batch", "rows"), [(0, 1), (2, 0)])
def test_nothing_to_write(batch, rows):
    model = """(float[B,4,2] x, float[B,T,2] u, int64[B] w) => (float[B,4,2] y) {
      y = TensorScatter(x, u, w)
    }"""
    inputs = {"x": values(batch, 4, 2), "u": values(batch, rows, 2)}
    got = gradients(model, inputs | {"w": np.zeros(batch, np.int64)}, opset=24)
    np.testing.assert_array_equal(got["x"], np.ones((batch, 4, 2)))
    assert got["u"].shape == (batch, rows, 2)


def test_unknown_rank():
    model = """(float[N] a, float[M] b, int64[R] s, int64[R] t) => (float y) {
      x = Reshape(a, s) u = Reshape(b, t) y = TensorScatter(x, u)
    }"""
    model = parse(model, 24)
    model.graph.outputs[0].shape = None
    with pytest.raises(UnsupportedError) as error:
        vjp(model, of="y", wrt="b")
    assert str(error.value) == (
        "Node 'TensorScatter' (TensorScatter) has an input 'x' of unknown rank (FLOAT[?]), and "
        "its gradient needs it. Declare the shape of the input; its dimensions may be symbols."
    )
