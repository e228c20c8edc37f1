"""Conformance case S11: Gemm of opset 7 and older graphs, whose C is broadcast in all ways."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """<ir_version: 3, opset_import: ["" : %(opset)d]>
model (float[%(a)s] A, float[3,4] B, float[%(c)s] C) => (float[%(n)s,4] Y) {
  Y = Gemm<alpha = 0.5, beta = 2.0%(more)s>(A, B, C)
}"""


def model(c, opset, a="2,3", n="2", more=""):
    text = MODEL % {"c": c, "opset": opset, "a": a, "n": n, "more": more}
    return text.replace("float[] C", "float C")


@pytest.mark.parametrize("opset", [7, 9, 11])
@pytest.mark.parametrize("c", ["2,4", "4", "1,4", "2,1", "1,1", "1", ""])
def test_gradient_of_c_has_its_shape(opset, c):
    shape = [int(d) for d in c.split(",") if d]
    seed = np.float32([[1, 2, 3, 4], [10, 20, 30, 40]])
    f = pullback(model(c, opset), "Y", "A B C")
    A, B = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    outputs = f(A=A, B=B, C=np.ones(shape, np.float32), Y_grad=seed)
    dC = 2 * seed
    padded = [1] * (2 - len(shape)) + shape
    for axis, size in enumerate(padded):
        dC = dC.sum(axis, keepdims=True) if size == 1 else dC
    assert_numbers(
        outputs, A_grad=0.5 * seed @ B.T, B_grad=0.5 * A.T @ seed, C_grad=dC.reshape(shape)
    )


@pytest.mark.parametrize("opset", [7, 13, 21])
@pytest.mark.parametrize("more", ["", ", transA = 1", ", transB = 1", ", transA = 1, transB = 1"])
def test_transposed(opset, more):
    text = model("1,4", opset, "N,3", "N", more)
    text = text.replace("float[N,3] A", "float[3,N] A") if "transA" in more else text
    text = text.replace("float[3,4] B", "float[4,3] B") if "transB" in more else text
    assert_gradient(text, ["Y"], ["A", "B", "C"], second_order=opset == 21)


def test_without_c():
    text = model("4", 11).replace("(A, B, C)", "(A, B)")
    assert_gradient(text, ["Y"], ["A", "B"])


def test_in_a_loop():
    text = """<ir_version: 3, opset_import: ["" : 9]>
    model (int64 n, float[2,3] x, float[3,3] W, float[3] b) => (float[2,3] y) {
      yes = Constant<value = bool {1}>()
      y = Loop(n, yes, x) <body = body (int64 i, bool c, float[2,3] v) => (bool go, float[2,3] u) {
        go = Identity(c)
        g = Gemm(v, W, b)
        u = Tanh(g)
      }>
    }"""
    for n in (0, 3):
        assert_gradient(text, ["y"], ["x", "W", "b"], {"n": n})
