"""Conformance case H10: what ONNX Runtime 1.32 cannot do is not asked of it."""

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.gradient import vjp
from whileback.graph.scopes import is_loop, walk

UNREAD = """(int64 n, float[2] x, float[2] w) => (float[2] y) {
  y, unread, rows = Loop(n, , x, w) <body = body (int64 i, bool c, float[2] v, float[2] k)
      => (bool go, float[2] u, float[2] m, float[2] row) {
    go = Identity(c)
    u = Mul(v, k)
    m = Sin(k)
    row = Add(u, m)
  }>
}"""


@pytest.mark.parametrize("text", [UNREAD, UNREAD.replace("y, unread, rows", "y, , rows")])
def test_every_output_of_a_loop_is_bound(text):
    """An empty name of a carried output, by the user or by clean-up, ends the process."""
    model = vjp(parse(text), ["y"], ["x", "w"])
    for node in walk(model.graph):
        if is_loop(node):
            assert all(value.name for value in node.outputs), node.name
    f = pullback(text, "y", "x w")
    outputs = f(n=2, x=[2, 3], w=[0.5, 0], y_grad=[1, 10])
    # y = x·w·sin(w)
    slope = [np.sin(0.5) + 0.5 * np.cos(0.5), 0]
    assert_numbers(outputs, x_grad=[0.5 * np.sin(0.5), 0], w_grad=np.multiply([2, 30], slope))


def test_against_finite_differences():
    assert_gradient(UNREAD, ["y"], ["x", "w"], {"n": 3}, second_order=True)


@pytest.mark.parametrize("of", [["y"], ["y", "z"]])
def test_outputs_of_a_branch_that_nothing_reads(of):
    model = """(bool c, float[2] x, float[2] w) => (float[2] y, float[2] z) {
      y, z, unread = If(c) <
        then_branch = t () => (float[2] a, float[2] b, float[2] d) {
          a = Mul(x, w)
          b = Sin(a)
          d = Mul(b, b)
        },
        else_branch = e () => (float[2] p, float[2] q, float[2] r) {
          p = Sin(x)
          q = Mul(p, w)
          r = Add(q, p)
        }>
    }"""
    for c in (True, False):
        assert_gradient(model, of, ["x", "w"], {"c": c}, second_order=True)


@pytest.mark.parametrize("op", ["Conv", "Mean", "OneHot", "LSTM"])
def test_operators_without_a_double_kernel_are_judged_all_the_same(op):
    models = {
        "Conv": "(float[1,1,4] x, float[1,1,2] w) => (float[1,1,3] y) { y = Conv(x, w) }",
        "Mean": "(float[3] x, float[3] w) => (float[3] y) { a = Mul(x, w) y = Mean(a, x) }",
        "OneHot": """(int64[2] x, float[2] w) => (float[2,3] y) {
          three = Constant<value = int64 {3}>()
          y = OneHot(x, three, w)
        }""",
        "LSTM": """(float[2,1,2] x, float[1,8,2] w, float[1,8,2] R) => (float[2,1,1,2] y) {
          y = LSTM<hidden_size = 2>(x, w, R)
        }""",
    }
    wrt = ["w"] if op == "OneHot" else ["x", "w"]
    assert_gradient(models[op], ["y"], wrt)


def test_dead_nodes_are_removed():
    """The result holds no node that no output needs: the runtime would run it."""
    model = """(int64 n, float[2] x) => (float[2] y) {
      dead = Sin(x)
      deader = Exp(dead)
      y = Loop(n, , x) <body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u) {
        go = Identity(c)
        unread = Cos(v)
        u = Tanh(v)
      }>
    }"""
    found = vjp(parse(model), ["y"], ["x"])
    assert not {"Sin", "Exp", "Cos"} & {node.op_type for node in walk(found.graph)}
    _assert_all_is_read(found.graph)


def _assert_all_is_read(graph: ir.Graph) -> None:
    outputs = set(graph.outputs)
    for node in graph:
        read = [value for value in node.outputs if value.uses() or value in outputs]
        assert read, f"nothing reads {node.name}"
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _assert_all_is_read(attribute.as_graph())
