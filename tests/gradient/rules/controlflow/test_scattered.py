"""Rows of a captured tensor that trips read: their cotangents are added up after the loop."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback import compile
from whileback.gradient import vjp
from whileback.graph.scopes import is_standard, loop_view, walk

X = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
INDICES = np.array([3, 3, 1, -1, 0, 3, 5])
LOOP = """(int64 M, float[%s] X, int64[T] indices, float[4] v0) => (float[4] v) {
  v = Loop(M, , v0) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] u) {
    d = Identity(c)
    zero = Constant<value_ints = [0]>()
    three = Constant<value_int = 3>()
    %s
    p = Mul(x, s)
    q = Add(p, x)
    u = Tanh(q)
  }>
}"""
READS = {
    "in order": "x = Gather(X, i)",
    "from the end": "n = Neg(i) x = Gather(X, n)",
    "again and again": "k = Mod(i, three) x = Gather(X, k)",
    "at given places": "k = Gather(indices, i) x = Gather(X, k)",
    "two": "k = Mod(i, three) x0 = Gather(X, k) x1 = Gather(X, i) x = Add(x0, x1)",
    "a list of one": "k = Unsqueeze(i, zero) r = Gather(X, k) x = Squeeze(r, zero)",
    "a list of two": """k = Unsqueeze(i, zero) n = Neg(k) both = Concat<axis = 0>(k, n)
        r = Gather(X, both) x = ReduceSum<keepdims = 0>(r, zero)""",
    "by coordinates": "k = Unsqueeze(i, zero) x = GatherND(X, k)",
    "elements": """shape = Constant<value_ints = [1, 4]>() k = Expand(i, shape)
        r = GatherElements(X, k) x = Squeeze(r, zero)""",
}


def nodes_of_the_way_back(model: ir.Model) -> list[str]:
    """Return the operators in the body of the one reverse loop."""
    scan = next(node for node in walk(model.graph) if is_standard(node, "Scan"))
    return [node.op_type for node in loop_view(scan).body]


@pytest.mark.parametrize("dims", ["9, 4", "N, 4", "N, K"])
@pytest.mark.parametrize("read", READS)
def test_rows(read: str, dims: str) -> None:
    text = LOOP % (dims, READS[read])
    for trips in (0, 1, 7):
        inputs = {"M": trips, "X": X, "indices": INDICES}
        second = trips == 7 and dims == "N, 4"
        assert_gradient(text, ["v"], ["X", "v0"], inputs, second_order=second)
    back = nodes_of_the_way_back(vjp(parse(text), ["v"], ["X", "v0"]))
    assert {"ScatterND", "ScatterElements"}.isdisjoint(back)


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_columns(trips: int) -> None:
    text = LOOP % ("4, N", "x = Gather<axis = 1>(X, i)")
    inputs = {"M": trips, "X": X.T.copy(), "indices": INDICES}
    assert_gradient(text, ["v"], ["X", "v0"], inputs, second_order=trips == 7)
    back = nodes_of_the_way_back(vjp(parse(text), ["v"], ["X", "v0"]))
    assert "ScatterElements" not in back


@pytest.mark.parametrize("dtype", ["float16", "double"])
def test_types(dtype: str) -> None:
    text = (LOOP % ("N, 4", READS["again and again"])).replace("float", dtype)
    assert_gradient(text, ["v"], ["X", "v0"], {"M": 5, "X": X.astype(dtype), "indices": INDICES})


def test_what_is_added_in_16_bits_is_added_up_in_float() -> None:
    text = """(int64 M, float16[9] X, float16 v0) => (float16 v) {
      v = Loop(M, , v0) <body = b (int64 i, bool c, float16 s) => (bool d, float16 u) {
        d = Identity(c)
        k = Sub(i, i)
        x = Gather(X, k)
        u = Add(x, s)
      }>
    }"""
    gradient = vjp(parse(text), ["v"], ["X"])
    ones = np.float16(1)
    inputs = {"M": 5000, "X": np.zeros(9, np.float16), "v0": ones, "v_grad": ones}
    assert compile(gradient)(inputs)["X_grad"][0] == 5000


def test_tokens_of_unknown_number_in_every_trip() -> None:
    text = """(float[V,3] E, int64[T,B] tokens, float[B,3] v0) => (float[B,3] v) {
      v = Scan<num_scan_inputs = 1, body = b (float[B,3] s, int64[B] token) => (float[B,3] u) {
        x = Gather(E, token)
        p = Mul(x, s)
        u = Sin(p)
      }>(v0, tokens)
    }"""
    tokens = np.random.default_rng(2).integers(-6, 6, size=(5, 4))
    assert_gradient(text, ["v"], ["E", "v0"], {"E": X[:6, :3], "tokens": tokens, "v0": X[:4, 1:]})
    assert "ScatterElements" not in nodes_of_the_way_back(vjp(parse(text), ["v"], ["E"]))


def test_a_layer_chosen_in_every_trip_keeps_its_product() -> None:
    text = """(int64 M, float[2,4,4] W, float[1,4] v0) => (float[1,4] v) {
      v = Loop(M, , v0) <body = b (int64 i, bool c, float[1,4] s) => (bool d, float[1,4] u) {
        d = Identity(c)
        first = Constant<value_int = 0>()
        two = Constant<value_int = 2>()
        k = Mod(i, two)
        A = Gather(W, first)
        B = Gather(W, k)
        p = MatMul(s, A)
        q = Sin(p)
        r = MatMul(q, B)
        u = Tanh(r)
      }>
    }"""
    assert_gradient(text, ["v"], ["W", "v0"], {"M": 5}, second_order=True)
    # The product with the layer that is the same in every trip is made once.
    assert nodes_of_the_way_back(vjp(parse(text), ["v"], ["W"])).count("Gemm") == 1


def test_numbers_of_rows_that_change_from_trip_to_trip_are_not_stacked() -> None:
    """Row i+1 is read with all before it, and what is made of them has as many rows."""
    text = """(int64 M, float[5,3] X, float[3,2] w, float[2] v0) => (float[2] v) {
      v = Loop(M, , v0) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) {
        d = Identity(c)
        zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        axes = Constant<value_ints = [0]>()
        count = Add(i, one)
        indices = Range(zero, count, one)
        h = Gather(X, indices)
        hs = Sin(h)
        p = MatMul(hs, w)
        ps = Sin(p)
        q = ReduceSum<keepdims = 0>(ps, axes)
        q2 = Mul(q, s)
        u = Tanh(q2)
      }>
    }"""
    assert_gradient(text, ["v"], ["X", "w", "v0"], {"M": 4}, second_order=True)
