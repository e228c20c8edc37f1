"""Loops that are made to carry, read and write more."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from tests.judge import parse

from whileback.engines import compile
from whileback.graph.loops import More, extend_loop
from whileback.graph.scopes import LoopView, ScanInput, loop_view

LOOP = """(int64 n, float x, float z) => (float y, float[T] rows) {
  y, rows = Loop(n, , x) <body = body (int64 i, bool c, float v) => (bool go, float u, float row) {
    go = Identity(c)
    u = Mul(v, v)
    row = Neg(v)
    doubled = Add(v, v)
  }>
}"""
SCAN = """(float x, float[N] xs, float[N] zs) => (float y, float[N] rows) {
  y, rows = Scan(x, xs) <num_scan_inputs = 1, scan_input_directions = [1],
    body = body (float v, float r) => (float u, float row) {
      u = Add(v, r)
      row = Mul(v, r)
    }>
}"""


def first(model: ir.Model) -> LoopView:
    return loop_view(next(iter(model.graph)))


def declare(model: ir.Model, values: list[ir.Value], shapes: list[list[object]]) -> None:
    """Make values outputs of the model."""
    for count, (value, shape) in enumerate(zip(values, shapes, strict=True)):
        value.name, value.type = f"added_{count}", ir.TensorType(ir.DataType.FLOAT)
        value.shape = ir.Shape(shape)  # type: ignore[arg-type]
        model.graph.outputs.append(value)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_a_loop() -> None:
    model = parse(LOOP)
    view = first(model)
    carried = ir.Value(name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([]))
    added = ir.node("Add", [carried, view.carries[0].input], name="sum")
    added.outputs[0].name = "after"
    view.body.append(added)
    (doubled,) = (v for node in view.body for v in node.outputs if v.name == "doubled")
    start = model.graph.inputs[2]
    more = More(carried=[(start, carried, added.outputs[0])], written=[(doubled, 0, False)])
    own, others = extend_loop(view, more)
    assert [value.name for value in own] == ["y", "rows"] == [v.name for v in model.graph.outputs]
    declare(model, list(others), [[], ["T"]])
    result = compile(model)(n=3, x=2, z=100)
    assert result["y"] == 256
    assert result["rows"].tolist() == [-2, -4, -16]
    assert result["added_0"] == 100 + 2 + 4 + 16
    assert result["added_1"].tolist() == [4, 8, 32]


def test_a_scan() -> None:
    """Stacks are read, and written, along the axis and in the direction that is said."""
    model = parse(SCAN)
    view = first(model)
    row = ir.Value(name="z", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([]))
    copy = ir.node("Neg", [row], name="negative")
    copy.outputs[0].name = "minus_z"
    view.body.append(copy)
    read = ScanInput(model.graph.inputs[2], row, 0, False)
    _, others = extend_loop(view, More(read=[read], written=[(copy.outputs[0], 0, True)]))
    declare(model, list(others), [["N"]])
    result = compile(model)(x=1, xs=[1, 2, 3], zs=[4, 5, 6])
    assert result["y"] == 7
    np.testing.assert_array_equal(result["rows"], [3, 8, 6])
    np.testing.assert_array_equal(result["added_0"], [-6, -5, -4])


def test_what_is_read_in_other_scopes_is_read_from_the_new_loop() -> None:
    model = parse("""(bool p, int64 n, float[2] x) => (float[A] y) {
      all, rows = Loop(n, , x)
        <body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u, float[2] row) {
        go = Identity(c)
        u = Add(v, v)
        row = Identity(v)
      }>
      y = If(p) <then_branch = t () => (float[T,2] a) { a = Neg(rows) },
        else_branch = e () => (float[2] b) { b = Neg(all) }>
    }""")
    view = first(model)
    again = ir.node("Neg", [view.carries[0].input], name="again")
    again.outputs[0].name = "minus_v"
    view.body.append(again)
    extend_loop(view, More(written=[(again.outputs[0], 0, False)]))
    assert compile(model)(p=True, n=2, x=[1, 2])["y"].tolist() == [[-1, -2], [-2, -4]]
    assert compile(model)(p=False, n=2, x=[1, 2])["y"].tolist() == [-4, -8]
