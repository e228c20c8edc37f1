"""How little the gradient of a loop keeps, and how little its reverse body does."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.gradient import vjp
from whileback.graph.scopes import branches, walk

RNN = """(int64 M, float[1,4] y0, float[4,4] w) => (float[1,4] y) {
  y = Loop(M, , y0) <body = b (int64 i, bool c, float[1,4] v) => (bool go, float[1,4] u) {
    go = Identity(c)
    h = MatMul(v, w)
    u = Tanh(h)
  }>
}"""


def node(model: ir.Model, op_type: str) -> ir.Node:
    """Return the only node of this type, at any depth."""
    (found,) = [each for each in walk(model.graph) if each.op_type == op_type]
    return found


def body(model: ir.Model, op_type: str) -> list[str]:
    return [each.op_type for each in node(model, op_type).attributes["body"].as_graph()]


def tapes(model: ir.Model) -> int:
    """Return how many stacks the forward loop writes for its gradient."""
    return len(node(model, "Loop").outputs) - 1


def test_recurrent_layer_keeps_one_value_per_trip() -> None:
    model = vjp(parse(RNN), ["y"], ["w", "y0"])
    assert tapes(model) == 1
    assert body(model, "Loop") == ["MatMul", "Tanh"]


def test_recurrent_layer_goes_back_with_three_nodes() -> None:
    """The slopes come from outside, the weight's gradient is one product after the loop."""
    model = vjp(parse(RNN), ["y"], ["w", "y0"])
    assert body(model, "Scan") == ["Mul", "MatMul", "Identity"]
    then, _ = branches(node(model, "If"))
    assert [each.op_type for each in then][-1] == "Gemm"


def test_a_loop_that_surely_makes_a_trip_has_no_guard() -> None:
    text = RNN.replace(
        "{\n  y = Loop(M", "{\n  three = Constant<value_int = 3>()\n  y = Loop(three"
    )
    model = vjp(parse(text), ["y"], ["w"])
    assert not [each for each in walk(model.graph) if each.op_type == "If"]
    assert_gradient(text, ["y"], ["w", "y0"])


def test_nothing_is_kept_when_the_gradient_reads_nothing() -> None:
    text = """(int64 M, float[3] x, float[3] a) => (float[3] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[3] v) => (bool go, float[3] w) {
        go = Identity(c)
        w = Add(v, a)
      }>
    }"""
    model = vjp(parse(text), ["y"], ["x", "a"])
    assert tapes(model) == 0
    assert_gradient(text, ["y"], ["x", "a"], {"M": 3})


def test_the_trip_number_is_not_kept() -> None:
    text = """(int64 M, float x) => (float y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float v) => (bool go, float w) {
        go = Identity(c)
        t = Cast<to = 1>(i)
        w = Mul(v, t)
      }>
    }"""
    assert tapes(vjp(parse(text), ["y"], ["x"])) == 0
    assert_gradient(text, ["y"], ["x"], {"M": 4})


def test_an_elementwise_value_is_computed_again() -> None:
    """dx needs v and v·v; v alone is kept."""
    text = """(int64 M, float[2] x, float[2] a) => (float[2] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
        go = Identity(c)
        s = Mul(v, v)
        t = Mul(s, a)
        w = Sin(t)
      }>
    }"""
    assert tapes(vjp(parse(text), ["y"], ["x"])) == 1
    assert_gradient(text, ["y"], ["x", "a"], {"M": 3})


def test_rows_of_a_scan_are_read_where_they_are() -> None:
    text = """(float[T,2] xs, float[2] h0) => (float[2] h) {
      h = Scan<num_scan_inputs = 1, body = b (float[2] v, float[2] x) => (float[2] w) {
        w = Mul(v, x)
      }>(h0, xs)
    }"""
    model = vjp(parse(text), ["h"], ["xs", "h0"])
    forward, backward = (each for each in walk(model.graph) if each.op_type == "Scan")
    assert [value.name for value in backward.inputs][-1] == "xs"
    assert len(forward.outputs) == 2


def test_gradients_of_rows_are_made_after_the_loop() -> None:
    text = """(float[T,1,3] xs, float[1,2] h0, float[3,2] U) => (float[1,2] h) {
      h = Scan<num_scan_inputs = 1, body = b (float[1,2] v, float[1,3] x) => (float[1,2] w) {
        p = MatMul(x, U)
        s = Add(v, p)
        w = Tanh(s)
      }>(h0, xs)
    }"""
    model = vjp(parse(text), ["h"], ["xs", "U"])
    reverse = [each for each in walk(model.graph) if each.op_type == "Scan"][-1]
    types = [each.op_type for each in reverse.attributes["body"].as_graph()]
    assert types == ["Mul", "Identity"]
    assert_gradient(text, ["h"], ["xs", "U", "h0"])


def test_a_bias_is_summed_after_the_loop_from_what_is_stacked_anyway() -> None:
    text = RNN.replace("float[4,4] w)", "float[4,4] w, float[1,4] b0)").replace(
        "u = Tanh(h)", "z = Add(h, b0) u = Tanh(z)"
    )
    model = vjp(parse(text), ["y"], ["w", "b0"])
    assert body(model, "Scan") == ["Mul", "MatMul", "Identity"]
    assert_gradient(text, ["y"], ["w", "b0", "y0"], {"M": 3}, second_order=True)


def test_inner_loops_run_again_and_keep_nothing_outside() -> None:
    text = """(int64 M, int64 K, float[2] x) => (float[2] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
        go = Identity(c)
        w = Loop(K, , v) <body = d (int64 j, bool e, float[2] p) => (bool on, float[2] q) {
          on = Identity(e)
          q = Sin(p)
        }>
      }>
    }"""
    model = vjp(parse(text), ["y"], ["x"])
    outer = next(each for each in model.graph if each.op_type == "Loop")
    (inner,) = outer.attributes["body"].as_graph()
    assert (len(outer.outputs), len(inner.outputs)) == (2, 1)
    again = [each for each in walk(model.graph) if each.op_type == "Loop" and each is not inner]
    assert len(again) == 2


def test_a_random_draw_in_a_loop_is_kept() -> None:
    text = """(int64 M, float[2] x) => (float[2] y, float[K,2] draws) {
      y, draws = Loop(M, , x)
        <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w, float[2] r) {
        go = Identity(c)
        r = RandomNormal<shape = [2]>()
        w = Mul(v, r)
      }>
    }"""
    from whileback.engines import compile

    got = compile(vjp(parse(text), ["y"], ["x"]))(M=3, x=[1.0, 2.0], y_grad=[1.0, 10.0])
    assert got["x_grad"] == pytest.approx(got["draws"].prod(axis=0) * [1.0, 10.0])


def test_new_sizes_are_not_taken_for_those_of_an_earlier_gradient() -> None:
    """The length of a row that differs from trip to trip must not pass for a fixed one."""
    text = """(int64 n, float[4] x) => (float[4] y) {
      zero = Constant<value = int64[1] {0}>()
      one = Constant<value = int64[1] {1}>()
      y = Loop(n, , x) <body = b (int64 i, bool c, float[4] v) => (bool go, float[4] u) {
        go = Identity(c)
        e0 = Reshape(i, one)
        e = Add(e0, one)
        a = Slice(v, zero, e)
        q = Sin(a)
        r = ReduceSum<keepdims = 0>(q)
        u = Mul(r, v)
      }>
    }"""
    assert_gradient(text, ["y"], ["x"], {"n": 3}, second_order=True)
