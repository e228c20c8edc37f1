"""Which values a node reads, and the view on loops."""

from __future__ import annotations

import onnx_ir as ir
from tests.judge import parse

from whileback.graph.scopes import captures, loop_view, operands, subgraphs, walk, walk_graphs

NESTED = """(bool p, float a, float b, int64 M) => (float y) {
  y = If(p) <then_branch = t () => (float r) {
    r = Loop(M, , a) <body = l (int64 i, bool c, float v) => (bool go, float w) {
      go = Identity(c)
      s = Mul(v, b)
      w = Add(s, a)
    }>
  }, else_branch = e () => (float q) { q = Neg(b) }>
}"""


def names(values: list[ir.Value | None]) -> list[str | None]:
    return [None if value is None else value.name for value in values]


def test_operands_are_inputs_then_captures_in_the_order_of_use() -> None:
    (branch,) = parse(NESTED).graph
    assert names(operands(branch)) == ["p", "M", "a", "b"]


def test_captures_reach_through_all_levels_but_not_what_is_defined_inside() -> None:
    model = parse(NESTED)
    loop = next(node for node in walk(model.graph) if node.op_type == "Loop")
    assert names(list(captures(subgraphs(loop)[0]))) == ["b", "a"]


def test_an_outer_value_that_a_branch_returns_is_captured() -> None:
    x = ir.val("x", ir.DataType.FLOAT, [])
    assert captures(ir.Graph([], [x], nodes=[], name="b")) == [x]


def test_walk_visits_a_node_before_those_inside_it() -> None:
    assert [node.op_type for node in walk(parse(NESTED).graph)] == [
        "If", "Loop", "Identity", "Mul", "Add", "Neg",
    ]  # fmt: skip


def test_walk_does_not_recurse() -> None:
    graph = ir.Graph([], [], nodes=[], name="innermost")
    for _ in range(2000):
        node = ir.node("If", [], {"then_branch": graph})
        graph = ir.Graph([], [], nodes=[node], name="g")
    assert sum(1 for _ in walk(graph)) == 2000


def test_view_on_a_loop() -> None:
    model = parse("""(int64 M, bool on, float x, float z) => (float y, float[T] s) {
      y, last, s = Loop(M, on, x, z)
        <body = b (int64 i, bool c, float v, float p) => (bool go, float w, float q, float o) {
        go = Identity(c)
        w = Neg(v)
        q = Exp(p)
        o = Abs(v)
      }>
    }""")
    view = loop_view(next(iter(model.graph)))
    assert [(c.initial.name, c.input.name, c.output.name, c.result.name) for c in view.carries] == [
        ("x", "v", "w", "y"),
        ("z", "p", "q", "last"),
    ]
    assert [(s.row.name, s.stack.name, s.axis, s.reverse) for s in view.scan_outputs] == [
        ("o", "s", 0, False)
    ]
    assert names([view.trip, view.limit, view.start, view.proceed]) == ["i", "M", "on", "go"]


def test_view_on_a_scan() -> None:
    model = parse("""(float[2] h, float[3,T] x) => (float[2] y, float[2,T] s) {
      y, s = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
        scan_output_directions = [1], body = b (float[2] v, float[3] r) => (float[2] w, float[2] o)
        { w = Neg(v) o = Abs(v) }>(h, x)
    }""")
    view = loop_view(next(iter(model.graph)))
    assert [c.result.name for c in view.carries] == ["y"]
    assert [(s.stack.name, s.row.name, s.axis, s.reverse) for s in view.scan_inputs] == [
        ("x", "r", 1, False)
    ]
    assert [(s.row.name, s.stack.name, s.axis, s.reverse) for s in view.scan_outputs] == [
        ("o", "s", -1, True)
    ]
    assert not view.scan_inputs[0].is_in_order


def test_graphs_come_in_the_order_of_the_nodes_that_hold_them() -> None:
    assert [graph.name for graph in walk_graphs(parse(NESTED).graph)] == [
        "model", "t", "e", "l",
    ]  # fmt: skip
