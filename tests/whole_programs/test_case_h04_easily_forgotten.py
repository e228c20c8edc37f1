"""Conformance case H4: gradients easily taken for zero: Det, OneHot, BatchNormalization."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback


@pytest.mark.parametrize("seed", [1, -0.5])
def test_det(seed):
    """d det(A) = det(A)·A⁻ᵀ, which is the matrix of cofactors."""
    f = pullback("(float[2,2] A) => (float y) { y = Det(A) }", "y", "A")
    outputs = f(A=[[2, 3], [5, 7]], y_grad=seed)
    assert_numbers(outputs, y=-1, atol=2e-5, A_grad=np.multiply(seed, [[7, -5], [-3, 2]]))


@pytest.mark.parametrize(("shape", "out"), [("3,3", ""), ("N,2,2", "N"), ("1,2,3,3", "1,2")])
def test_det_of_stacks(shape, out):
    sizes = [3 if d == "N" else int(d) for d in shape.split(",")]
    A = np.random.default_rng(4).normal(size=sizes).astype(np.float32)
    A += np.eye(sizes[-1], dtype=np.float32)
    result = f"float[{out}]" if out else "float"
    model = f"(float[{shape}] A) => ({result} y) {{ y = Det(A) }}"
    assert_gradient(model, ["y"], ["A"], {"A": A}, second_order=True)


ONE_HOT = """(int64[%s] i, float[2] values) => (float[%s] y) {
  depth = Constant<value = int64 {4}>()
  y = OneHot<axis = %d>(i, depth, values)
}"""


@pytest.mark.parametrize("seed", [np.ones((2, 4)), np.arange(8.0).reshape(2, 4)])
def test_one_hot(seed):
    """`values` holds off, on: their gradients are the sums of the seed where y is off, and on."""
    f = pullback(ONE_HOT % ("2", "2,4", -1), "y", "values")
    outputs = f(i=[1, -1], values=[-3, 5], y_grad=seed.astype(np.float32))
    on = seed[0, 1] + seed[1, 3]
    assert_numbers(outputs, y=[[-3, 5, -3, -3], [-3, -3, -3, 5]], values_grad=[seed.sum() - on, on])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[[0, 3], [-1, 2], [1, 7]], [2, 2]])
def test_one_hot_shapes(axis, indices):
    i = np.array(indices, np.int64)
    dims, out = ("A,B", "P,Q,R") if i.ndim == 2 else ("A", "P,Q")
    assert_gradient(ONE_HOT % (dims, out, axis), ["y"], ["values"], {"i": i})


BATCH = """(float[%(x)s] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float[%(x)s] y) {
  y = BatchNormalization<epsilon = 1e-5>(x, s, b, m, v)
}"""


@pytest.mark.parametrize("seed", [[[1, 1], [1, 1]], [[1, -2], [0.5, 3]]])
def test_batch_norm_at_inference(seed):
    x, s = np.array([[1.0, 2], [4, -1]]), np.array([2.0, -0.5])
    m, v = np.array([0.5, 1]), np.array([2.25, 4])
    outputs = pullback(BATCH % {"x": "2,2"}, "y", "x s b m v")(
        x=x.tolist(), s=s.tolist(), b=[0, 1], m=m.tolist(), v=v.tolist(), y_grad=seed
    )
    std, seed = np.sqrt(v + 1e-5), np.array(seed)
    dm = -(seed * s / std).sum(0)
    dv = -(seed * s * (x - m)).sum(0) / (2 * std**3)
    assert_numbers(outputs, x_grad=seed * s / std, m_grad=dm, v_grad=dv, b_grad=seed.sum(0))


@pytest.mark.parametrize("shape", ["3,2", "N,2", "N,2,L", "N,2,2,3"])
def test_batch_norm_shapes(shape):
    inputs = {"v": np.float32([0.5, 2])}
    wrt = ["x", "s", "b", "m", "v"]
    assert_gradient(BATCH % {"x": shape}, ["y"], wrt, inputs, second_order=shape == "N,2")


def test_in_a_loop():
    model = """(int64 n, int64[T] i, float[2,2] A, float[2] values) => (float[2,2] y) {
      two = Constant<value = int64 {2}>()
      one = Constant<value = int64[1] {1}>()
      y = Loop(n, , A) <body = body (int64 t, bool c, float[2,2] V) => (bool go, float[2,2] U) {
        go = Identity(c)
        row = Reshape(t, one)
        d = Det(V)
        k = Gather(i, row)
        h = OneHot(k, two, values)
        a = Mul(V, d)
        b = Add(a, h)
        U = Sin(b)
      }>
    }"""
    A = np.float32([[1, 0.25], [-0.5, 0.75]])
    inputs = {"n": 2, "i": [0, 1], "A": A, "values": [0.25, 0.75]}
    assert_gradient(model, ["y"], ["A", "values"], inputs, second_order=True)
