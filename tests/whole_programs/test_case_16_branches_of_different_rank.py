"""Conformance case 16: branches of different rank, and branches that only pass a value on."""

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.gradient import vjp
from whileback.graph.scopes import subgraphs, walk

RANKS = """(bool c, float[1,3] x) => (float[3] z) {
  axes = Constant<value = int64[1] {0}>()
  flat = Constant<value = int64[1] {-1}>()
  y = If(c) <
    then_branch = same () => (float[1,3] a) { a = Identity(x) },
    else_branch = less () => (float[3] b) { b = Squeeze(x, axes) }>
  z = %s
}"""


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("seed", [[1, 1, 1], [0.5, -2, 3]])
def test_gradient_has_the_shape_of_the_input(c, seed):
    f = pullback(RANKS % "Reshape(y, flat)", "z", "x")
    outputs = f(c=c, x=[[1, 2, 3]], z_grad=seed)
    assert_numbers(outputs, z=[1, 2, 3], x_grad=[seed])


@pytest.mark.parametrize("c", [True, False])
def test_result_of_unknown_rank_is_named_itself(c):
    """The seed is an input of unknown rank, which ONNX Runtime accepts and the checker does not."""
    f = pullback(RANKS % "Reshape(y, flat)", "y", "x")
    shape = (1, 3) if c else (3,)
    seed = np.float32([0.5, -2, 3]).reshape(shape)
    outputs = f(c=c, x=[[1, 2, 3]], y_grad=seed)
    assert outputs["y"].shape == shape
    assert_numbers(outputs, x_grad=[[0.5, -2, 3]])


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize(
    "last", ["Reshape(y, flat)", "Sin(r) r = Reshape(y, flat)", "Mul(r, r) r = Reshape(y, flat)"]
)
def test_what_follows(c, last):
    lines = last.split(") ", 1)
    text = RANKS.replace("z = %s", f"{lines[1]} z = {lines[0]})" if lines[1:] else f"z = {last}")
    assert_gradient(text, ["z"], ["x"], {"c": c}, second_order="Reshape(y" not in lines[0])


@pytest.mark.parametrize("c", [True, False])
def test_sizes_differ(c):
    model = """(bool c, float[N] x, float[M] w) => (float s) {
      y = If(c) <
        then_branch = one () => (float[A] a) { a = Concat<axis = 0>(x, w) },
        else_branch = other () => (float[B] b) { b = Mul(x, x) }>
      t = Sin(y)
      s = ReduceSum<keepdims = 0>(t)
    }"""
    inputs = {"c": c, "x": [1, 2], "w": [3, 0.5, 1.5]}
    assert_gradient(model, ["s"], ["x", "w"], inputs, second_order=True)


PASSES_ON = """(bool c, float[N] x, float[N] w) => (float[N] y, float[N] z) {
  y, z = If(c) <
    then_branch = t () => (float[N] a, float[N] b) { a = Identity(x) b = Identity(w) },
    else_branch = e () => (float[N] d, float[N] f) { d = Identity(w) f = Mul(x, w) }>
}"""


@pytest.mark.parametrize("c", [True, False])
def test_branch_that_only_passes_on(c):
    assert_gradient(PASSES_ON, ["y", "z"], ["x", "w"], {"c": c})
    f = pullback(PASSES_ON, "y", "x w")
    outputs = f(c=c, x=[1, 2], w=[3, 4], y_grad=[5, 6])
    right = ([5, 6], [0, 0]) if c else ([0, 0], [5, 6])
    assert_numbers(outputs, x_grad=right[0], w_grad=right[1])


@pytest.mark.parametrize("c", [True, False])
def test_branch_that_returns_an_outer_value(c):
    """The checker and ONNX Runtime refuse it: normal form puts an Identity there."""
    text = PASSES_ON.replace("float[N] a,", "float[N] x,").replace("a = Identity(x) ", "")
    f = pullback(text, "y z", "x w")
    outputs = f(c=c, x=[1, 2], w=[3, 4], y_grad=[5, 6], z_grad=[7, 8])
    if c:
        assert_numbers(outputs, y=[1, 2], z=[3, 4], x_grad=[5, 6], w_grad=[7, 8])
    else:
        assert_numbers(outputs, y=[3, 4], z=[3, 8], x_grad=[21, 32], w_grad=[5 + 7, 6 + 16])


@pytest.mark.parametrize("text", [PASSES_ON, RANKS % "Reshape(y, flat)"], ids=["passes", "ranks"])
def test_no_generated_subgraph_returns_an_outer_value(text):
    of = ["y"] if text is PASSES_ON else ["z"]
    model = vjp(parse(text), of, ["x"])
    for node in walk(model.graph):
        for graph in subgraphs(node):
            _assert_own_outputs(graph)


def _assert_own_outputs(graph: ir.Graph) -> None:
    assert len(set(graph.outputs)) == len(graph.outputs)
    for value in graph.outputs:
        assert value.graph is graph or value.is_graph_input(), f"{value.name} of {graph.name}"
