"""Conformance case 22: indices that repeat, and negative ones: gradients add up."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

GATHER = """(float[%s] x, %s i) => (float[%s] y) { y = Gather<axis = %d>(x, i) }"""
GATHER_ND = """(float[2,2] x, int64[3,2] i) => (float[3] y) { y = GatherND(x, i) }"""


def test_one_element_twice():
    f = pullback(GATHER % ("1", "int64[2]", "2", 0), "y", "x")
    assert_numbers(f(x=[7], i=[0, 0], y_grad=[0.2, 0.3]), y=[7, 7], x_grad=[0.5])
    assert_numbers(f(x=[7], i=[0, 0], y_grad=[1, 1]), x_grad=[2])


def test_negative_index():
    f = pullback(GATHER % ("2,3", "int64[3]", "2,3", 1), "y", "x")
    seed = [[1, 2, 4], [8, 16, 32]]
    outputs = f(x=[[1, 2, 3], [4, 5, 6]], i=[-1, 2, 0], y_grad=seed)
    assert_numbers(outputs, y=[[3, 3, 1], [6, 6, 4]], x_grad=[[4, 0, 3], [32, 0, 24]])


def test_gather_nd():
    f = pullback(GATHER_ND, "y", "x")
    i = [[0, 0], [1, 1], [1, 1]]
    x = [[1, 2], [3, 4]]
    assert_numbers(f(x=x, i=i, y_grad=[1, 1, 1]), y=[1, 4, 4], x_grad=[[1, 0], [0, 2]])
    assert_numbers(f(x=x, i=i, y_grad=[0.5, 2, -5]), x_grad=[[0.5, 0], [0, -3]])


@pytest.mark.parametrize("shape", ["4,3", "N,D"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[-1, 2, 2], [0], [[1, -3], [1, 1]], 2, []])
def test_gather(shape, axis, indices):
    i = np.array(indices, np.int64)
    x = np.random.default_rng(22).normal(size=(4, 3)).astype(np.float32)
    index = ("int64", "int64[K]", "int64[K,L]")[i.ndim]
    result = ("A", "A,B", "A,B,C")[i.ndim]
    assert_gradient(GATHER % (shape, index, result, axis), ["y"], ["x"], {"x": x, "i": i})


@pytest.mark.parametrize(
    ("op", "shape", "indices"),
    [
        ("GatherElements<axis = 1>", "2,3", [[-1, 0, 0], [2, 2, -3]]),
        ("GatherElements<axis = -2>", "2,3", [[1, 0, -1], [1, 1, 0], [0, 0, 0]]),
        ("GatherND", "2,3", [[1], [1], [-2]]),
        ("GatherND<batch_dims = 1>", "2,3", [[[1], [1]], [[-1], [2]]]),
    ],
)
def test_other_gathers(op, shape, indices):
    i = np.array(indices, np.int64)
    dims = ",".join(map(str, i.shape))
    result = "A,B" if op != "GatherND" else "A,3"
    model = f"""(float[{shape}] x, int64[{dims}] i) => (float[{result}] y) {{
      g = {op}(x, i)
      y = Mul(g, g)
    }}"""
    assert_gradient(model, ["y"], ["x"], {"i": i}, second_order=True)


@pytest.mark.parametrize("reduction", ["none", "add", "mul"])
@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements<axis = 0>"])
def test_scatters_read_the_other_way(op, reduction):
    indices = [[3], [0], [-3]] if op == "ScatterND" else [3, 0, -3]
    if reduction != "none":
        indices = [[0], [0], [-3]] if op == "ScatterND" else [0, 0, -3]
    i = np.array(indices, np.int64)
    dims = ",".join(map(str, i.shape))
    head, _, rest = op.partition("<")
    attributes = ", ".join(filter(None, [rest.rstrip(">"), f'reduction = "{reduction}"']))
    model = f"""(float[N] x, int64[{dims}] i, float[3] u) => (float[N] y) {{
      y = {head}<{attributes}>(x, i, u)
    }}"""
    inputs = {"x": [1, 2, 3, 4], "i": i, "u": [0.5, -1.5, 2]}
    assert_gradient(model, ["y"], ["x", "u"], inputs)


def test_in_a_loop():
    """The same row is read by several trips, forward and from the end."""
    model = """(float[5,2] x, int64[T] rows, float[2] h) => (float[2] y) {
      n = Size(rows)
      y = Loop(n, , h) <body = body (int64 t, bool c, float[2] v) => (bool go, float[2] u) {
        go = Identity(c)
        i = Gather(rows, t)
        row = Gather(x, i)
        a = Mul(v, row)
        u = Sin(a)
      }>
    }"""
    for rows in ([1, -4, 1], [0], []):
        inputs = {"rows": np.array(rows, np.int64), "h": [0.5, -1.5]}
        assert_gradient(model, ["y"], ["x", "h"], inputs, second_order=len(rows) == 3)
