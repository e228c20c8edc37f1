"""Conformance case 35: nodes in any order are sorted, cycles are refused at once."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.engines import compile
from whileback.errors import GraphError
from whileback.gradient import gradient, vjp
from whileback.graph.scopes import subgraphs, walk


def test_top_level() -> None:
    outputs = pullback("(float[2] x) => (float[2] y) { y = Mul (a, x) a = Exp (x) }", "y", "x")(
        x=[0, 1], y_grad=[2, 1]
    )
    assert_numbers(outputs, y=[0, np.e], x_grad=[2, 2 * np.e])


@pytest.mark.parametrize("trips", [0, 3])
def test_inside_a_loop(trips: int) -> None:
    body = "<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] r) { %s }>"
    text = """(float[2] x, float[2] w, int64 n) => (float[2] z) {
      %s y = Loop (n, , x) """ + body + " %s }"  # fmt: skip
    unsorted_ = text % (
        "z = Sin (y)",
        "r = Mul (a, u) a = Exp (v) u = Tanh (k) d = Identity (c)",
        "k = Mul (w, w)",
    )
    in_order = text % (
        "k = Mul (w, w)",
        "a = Exp (v) u = Tanh (k) r = Mul (a, u) d = Identity (c)",
        "z = Sin (y)",
    )
    feeds = {"x": [0.5, -1], "w": [0.25, 0.75], "n": trips, "z_grad": [1, 3]}
    want, got = (pullback(each, "z", "x w")(feeds) for each in (in_order, unsorted_))
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)
    assert_gradient(in_order, ["z"], ["x", "w"], {"n": trips})


def test_result_is_sorted_at_every_depth() -> None:
    model = parse(
        """(float[2] x, int64 n) => (float[2] y) {
          y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] r) {
            r = Mul (a, k) a = Exp (v) d = Identity (c) }>
          k = Mul (x, x) }"""
    )
    result = vjp(model, of=["y"], wrt=["x"])
    onnx.checker.check_model(ir.to_proto(result), full_check=True)
    for graph in [result.graph, *(g for n in walk(result.graph) for g in subgraphs(n))]:
        seen: set[ir.Node] = set()
        for node in graph:
            makers = [v.producer() for v in node.inputs if v is not None]
            assert all(m in seen for m in makers if m is not None and m.graph is graph)
            seen.add(node)


@pytest.mark.parametrize(
    "nodes, tensors",
    [
        ("a = Exp (b) b = Mul (a, x) y = Neg (b)", "the tensors 'a' -> 'b' -> 'a' need each other"),
        ("y = Mul (y, x)", "Node 'y' (Mul) reads its own output 'y'"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_cycles(nodes: str, tensors: str, inside: bool) -> None:
    if inside:
        nodes = f"""z = Loop (n, , x) <body = b (int64 i, bool c, float[2] v)
          => (bool d, float[2] y) {{ d = Identity (c) {nodes} }}>"""
    output = "z" if inside else "y"
    model = parse(f"(float[2] x, int64 n) => (float[2] {output}) {{ {nodes} }}")
    with pytest.raises(GraphError) as error:
        vjp(model, of=[output], wrt=["x"])
    assert str(error.value) == (
        f"Graph '{'b' if inside else 'model'}' has a cycle: {tensors}. Only a Loop or Scan can "
        "repeat; break the cycle."
    )


def test_long_unsorted_chain() -> None:
    """5 000 nodes, last one first: no recursion error, and the right product."""
    length = 5_000
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    nodes = [onnx.helper.make_node("Mul", [a, "w"], [b]) for a, b in itertools.pairwise(names)]
    values = [onnx.helper.make_tensor_value_info(n, 1, []) for n in ("x", "w", "y")]
    graph = onnx.helper.make_graph(nodes[::-1], "chain", values[:2], values[2:])
    proto = onnx.helper.make_model(
        graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)]
    )
    result = gradient(ir.from_proto(proto), of="y", wrt=["x"])
    got = compile(result, threads=1)({"x": np.float32(2), "w": np.float32(0.9999)})
    assert got["x_grad"] == pytest.approx(0.9999**length, rel=1e-4)
