from collections import Counter

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.gradient import vjp

SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((2, 3), (2, 3, 4)),
    ((2, 1, 2, 3), (3, 3, 4)),
    ((1, 2, 3), (2, 3, 2)),
    ((2, 0), (0, 3)),
]


def random(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_known_shapes(left, right):
    a, b = (",".join(map(str, shape)) for shape in (left, right))
    model = f"""(float[{a}] a, float[{b}] b) => (float[N] y) {{
      flat = Constant<value_ints = [-1]>()
      product = MatMul(a, b)
      y = Reshape(product, flat)
    }}"""
    assert_gradient(model, ["y"], ["a", "b"], second_order=0 not in left)


@pytest.mark.parametrize(("left", "right"), SHAPES[:-1])
def test_unknown_ranks(left, right):
    model = """(float[N] a, int64[R] r, float[M] b, int64[S] s) => (float[K] y) {
      flat = Constant<value_ints = [-1]>()
      left = Reshape(a, r)
      right = Reshape(b, s)
      product = MatMul(left, right)
      y = Reshape(product, flat)
    }"""
    inputs = {
        "a": random(left, 1).reshape(-1),
        "r": np.array(left),
        "b": random(right, 2).reshape(-1),
        "s": np.array(right),
    }
    assert_gradient(model, ["y"], ["a", "b"], inputs, second_order=True)


def test_unknown_dimensions():
    model = "(float[B,T,K] a, float[K,N] b) => (float[B,T,N] y) { y = MatMul(a, b) }"
    inputs = {"a": random((2, 4, 3), 1), "b": random((3, 5), 2)}
    assert_gradient(model, ["y"], ["a", "b"], inputs, second_order=True)


def test_one_value_twice():
    model = "(float[3,3] a) => (float[3,3] y) { y = MatMul(a, a) }"
    assert_gradient(model, ["y"], ["a"], second_order=True)


def test_a_weight_that_meets_a_batch_takes_one_product():
    model = "(float[B,T,3] a, float[3,4] w) => (float[B,T,4] y) { y = MatMul(a, w) }"
    nodes = vjp(parse(model), of="y", wrt="w").graph
    assert Counter(node.op_type for node in nodes) == {"MatMul": 1, "Flatten": 2, "Gemm": 1}


@pytest.mark.parametrize("c", [None, "float[2,4]", "float[4]", "float[2,1]", "float[1,4]", "float"])
@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "<transA = 1>",
        "<transB = 1>",
        "<transA = 1, transB = 1>",
        "<alpha = 0.5, beta = -2.0>",
        "<alpha = 0.5, beta = -2.0, transA = 1, transB = 1>",
    ],
)
def test_gemm(attributes, c):
    """Conformance case S11: the gradient of C has C's shape."""
    a = "float[3,2]" if "transA" in attributes else "float[2,3]"
    b = "float[4,3]" if "transB" in attributes else "float[3,4]"
    third = f", {c} c" if c else ""
    model = f"""({a} a, {b} b{third}) => (float[2,4] y) {{
      y = Gemm{attributes}(a, b{", c" if c else ""})
    }}"""
    assert_gradient(model, ["y"], ["a", "b", "c"] if c else ["a", "b"], second_order=True)


def test_gemm_takes_one_node_for_each_gradient():
    model = """(float[B,3] a, float[4,3] b, float[4] c) => (float[B,4] y) {
      y = Gemm<transB = 1>(a, b, c)
    }"""
    nodes = vjp(parse(model), of="y", wrt=["a", "b", "c"]).graph
    assert Counter(node.op_type for node in nodes) == {"Gemm": 3, "ReduceSum": 1}
