"""Tangents through nodes, branches and loops: no loop goes backward, and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest
from tests.golden.models import MODELS
from tests.judge import parse
from tests.judge_forward import assert_tangents

from whileback.engines import compile
from whileback.gradient import jvp, vjp
from whileback.graph.scopes import LoopView, is_loop, loop_view, walk

INPUTS = {"broadcast_unknown": {"x": [[1, 2, 3], [4, 5, 6]], "b": [7, 8, 9]}}

WHILE = """(float[2,3] x, float[3,3] w, float[3] b) => (float[2,3] y) {
  limit = Constant<value = float {3.0}>() yes = Constant<value = bool {1}>()
  y = Loop(, yes, x) <body = body (int64 i, bool c, float[2,3] v) => (bool go, float[2,3] u) {
    h = MatMul(v, w)
    s = Add(h, b)
    u = Add(s, v)
    size = ReduceMax<keepdims = 0>(u)
    go = Less(size, limit)
  }>
}"""
COUNTED = """(int64 n, float[3] x, float[3] w) => (float[3] y, float[T,3] rows) {
  y, rows = Loop(n, , x)
    <body = body (int64 i, bool c, float[3] v) => (bool go, float[3] u, float[3] row) {
    go = Identity(c)
    p = Mul(v, w)
    u = Tanh(p)
    row = Sin(u)
  }>
}"""


def loops(model: ir.Model) -> Iterator[LoopView]:
    return (loop_view(node) for node in walk(model.graph) if is_loop(node))


@pytest.mark.parametrize("name", MODELS)
def test_recorded_models(name: str) -> None:
    text, of, wrt = MODELS[name]
    assert_tangents(text, of, wrt, INPUTS.get(name))


@pytest.mark.parametrize("name", [name for name in MODELS if "loop" in name or "scan" in name])
def test_loops_carry_tangents_and_keep_nothing(name: str) -> None:
    """One loop for each of the model's; each value beside its tangent, and no stack besides."""
    text, of, wrt = MODELS[name]
    own, pushed = parse(text), jvp(parse(text), of, wrt)
    before, after = list(loops(own)), list(loops(pushed))
    assert [view.node.op_type for view in after] == [view.node.op_type for view in before]
    for old, new in zip(before, after, strict=True):
        assert len(new.carries) == 2 * len(old.carries)
        assert len(new.scan_inputs) == 2 * len(old.scan_inputs)
        assert len(new.scan_outputs) == 2 * len(old.scan_outputs)


@pytest.mark.parametrize("trips", [0, 1, 7, 4000])
def test_any_number_of_trips(trips: int) -> None:
    assert_tangents(COUNTED, ["y", "rows"], ["x", "w"], {"n": trips, "w": [0.5, -1.5, 2]})


def test_no_trip_hands_on_the_tangent() -> None:
    f = compile(jvp(parse(COUNTED), ["y"], ["x", "w"]))
    outputs = f(n=0, x=[1, 2, 3], w=[1, 1, 1], x_tangent=[4, 5, 6], w_tangent=[7, 8, 9])
    assert outputs["y_tangent"].tolist() == [4, 5, 6]


def test_a_model_that_gives_an_empty_stack_its_shape() -> None:
    """The runtime shapes it (0, 0); the model mends that before it sums the rows."""
    model = """(int64 n, float[N] x) => (float[N] y) {
      any = Constant<value_ints = [-1]>() zero = Constant<value_ints = [0]>()
      size = Shape(x)
      shape = Concat<axis = 0>(any, size)
      last, stack = Loop(n, , x)
        <body = body (int64 i, bool c, float[N] v) => (bool go, float[N] u, float[N] row) {
        go = Identity(c)
        u = Sin(v)
        row = Mul(u, x)
      }>
      rows = Reshape(stack, shape)
      total = ReduceSum<keepdims = 0>(rows, zero)
      y = Add(total, last)
    }"""
    for trips in (0, 2):
        assert_tangents(model, ["y"], ["x"], {"n": trips})


def test_a_loop_that_ends_by_its_data() -> None:
    inputs = {"x": [[0.5] * 3] * 2, "w": [[0.25] * 3] * 3, "b": [0.1, 0.2, 0.3]}
    assert_tangents(WHILE, ["y"], ["x", "w", "b"], inputs)


def test_what_is_carried_but_has_no_tangent_at_first() -> None:
    model = """(int64 n, float[2] x) => (float[2] y) {
      zero = Constant<value = float[2] {0.0, 0.0}>()
      one = Constant<value = float {1.0}>()
      y, k = Loop(n, , zero, one)
        <body = body (int64 i, bool c, float[2] v, float k) => (bool go, float[2] u, float l) {
        go = Identity(c)
        p = Mul(x, k)
        u = Add(v, p)
        l = Add(k, one)
      }>
    }"""
    assert_tangents(model, ["y"], ["x"], {"n": 4})
    (view,) = loops(jvp(parse(model), ["y"], ["x"]))
    assert len(view.carries) == 3  # the counter has none


def test_carried_values_that_change_places() -> None:
    model = """(int64 n, float[2] x, float[2] z) => (float[2] y) {
      y, o = Loop(n, , x, z)
        <body = body (int64 i, bool c, float[2] v, float[2] u)
          => (bool go, float[2] a, float[2] b) {
        go = Identity(c)
        a = Identity(u)
        b = Mul(v, v)
      }>
    }"""
    for trips in (0, 1, 2, 5):
        assert_tangents(model, ["y"], ["x", "z"], {"n": trips})


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_axes_and_directions(axis: int, reverse: int) -> None:
    stack = "float[T,2]" if axis == 0 else "float[2,T]"
    model = f"""({stack} xs, float[2] h) => (float[2] y, {stack} all) {{
      y, all = Scan(h, xs) <num_scan_inputs = 1, scan_input_axes = [{axis}],
        scan_input_directions = [{reverse}], scan_output_axes = [{axis}],
        scan_output_directions = [{1 - reverse}],
        body = body (float[2] v, float[2] x) => (float[2] u, float[2] row) {{
          p = Mul(v, x)
          u = Sin(p)
          row = Mul(p, x)
        }}>
    }}"""
    assert_tangents(model, ["y", "all"], ["xs", "h"])


def test_a_loop_that_writes_in_a_loop_that_writes() -> None:
    model = """(int64 n, int64 m, float[2] x, float[2] a) => (float[2] y, float[S,T,2] all) {
      y, all = Loop(n, , x)
        <body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u, float[T,2] rows) {
        go = Identity(c)
        u, rows = Loop(m, , v)
          <body = inner (int64 j, bool d, float[2] p) => (bool on, float[2] q, float[2] row) {
          on = Identity(d)
          r = Mul(p, a)
          q = Sin(r)
          row = Mul(q, q)
        }>
      }>
    }"""
    assert_tangents(model, ["y", "all"], ["x", "a"], {"n": 3, "m": 2})


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_value_that_grows(trips: int) -> None:
    model = """(int64 n, float[K] x, float[1] z) => (float[M] y) {
      y = Loop(n, , x) <body = body (int64 i, bool c, float[A] v) => (bool go, float[B] u) {
        go = Identity(c)
        p = Mul(v, z)
        u = Concat<axis = 0>(p, z)
      }>
    }"""
    assert_tangents(model, ["y"], ["x", "z"], {"n": trips, "x": [0.5, -1.5]})


def test_sequences_that_loops_carry() -> None:
    model = """(int64 n, float[2] x) => (float[N] y) {
      none = SequenceEmpty<dtype = 1>()
      last, every = Loop(n, , x, none)
        <body = body (int64 i, bool c, float[2] v, seq(float[2]) s)
          => (bool go, float[2] u, seq(float[2]) t) {
        go = Identity(c)
        u = Mul(v, x)
        t = SequenceInsert(s, u)
      }>
      y = ConcatFromSequence<axis = 0>(every)
    }"""
    assert_tangents(model, ["y"], ["x"], {"n": 3})


def test_sequences() -> None:
    """Shapes are asked of their elements, never of themselves."""
    model = """(float[A,B] x, float[A,B] z) => (float[A,B] y) {
      one = Constant<value_int = 1>()
      s = SequenceConstruct(x, z)
      t = SequenceMap <body = body (float[A,B] v) => (float[A,B] u) { p = Sin(v) u = Mul(p, v) }>(s)
      i = SequenceInsert(t, x, one)
      rows = ConcatFromSequence<axis = 0, new_axis = 1>(i)
      zero = Constant<value_ints = [0]>()
      y = ReduceProd<keepdims = 0>(rows, zero)
    }"""
    assert_tangents(model, ["y"], ["x", "z"])


def test_branches_that_differ_in_rank() -> None:
    model = """(bool p, float[2,3] x) => (float[N] y) {
      h = If(p) <then_branch = t () => (float[2,3] a) { a = Exp(x) },
        else_branch = e () => (float[2] b) { one = Constant<value_ints = [1]>()
          b = ReduceSum<keepdims = 0>(x, one) }>
      all = Constant<value_ints = [-1]>()
      r = Reshape(h, all)
      y = Mul(r, r)
    }"""
    for p in (True, False):
        assert_tangents(model, ["y"], ["x"], {"p": p})


def test_a_branch_without_a_tangent() -> None:
    model = """(bool p, float[2] x) => (float[2] y) {
      y = If(p) <then_branch = t () => (float[2] a) { a = Exp(x) },
        else_branch = e () => (float[2] b) { b = Constant<value = float[2] {1.0, 2.0}>() }>
    }"""
    for p in (True, False):
        assert_tangents(model, ["y"], ["x"], {"p": p})


@pytest.mark.parametrize("wrt", [["h"], ["x", "h"], ["s"], ["x", "s", "h"]])
def test_values_on_the_way(wrt: list[str]) -> None:
    """Moved by what they depend on, and on their own."""
    model = """(int64 n, float[2] x) => (float[2] y) {
      h, s = Loop(n, , x)
        <body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u, float[2] row) {
        go = Identity(c)
        u = Sin(v)
        row = Mul(v, v)
      }>
      zero = Constant<value_ints = [0]>()
      t = ReduceSum<keepdims = 0>(s, zero)
      y = Mul(h, t)
    }"""
    assert_tangents(model, ["y", "h", "s"], wrt, {"n": 3})


def test_what_is_not_chosen() -> None:
    """An infinite slope where nothing is chosen gives no NaN."""
    model = """(float[3] x) => (float[3] y) {
      zero = Constant<value = float {0.0}>()
      some = Greater(x, zero)
      l = Log(x)
      y = Where(some, l, x)
    }"""
    f = compile(jvp(parse(model), ["y"], ["x"]))
    assert f(x=[2, 0, -1], x_tangent=[3, 5, 7])["y_tangent"].tolist() == [1.5, 5, 7]


def test_numbers_drawn_in_a_loop_are_those_of_the_values() -> None:
    model = """(int64 n, float[2] x) => (float[2] y) {
      y = Loop(n, , x) <body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u) {
        go = Identity(c)
        r = RandomUniform<shape = [2], low = 0.5, high = 2.0>()
        u = Mul(v, r)
      }>
    }"""
    outputs = compile(jvp(parse(model), ["y"], ["x"]))(n=5, x=[1, 2], x_tangent=[1, 2])
    np.testing.assert_array_equal(outputs["y"], outputs["y_tangent"])


PLACING = {
    "ScatterND": "y = ScatterND%s(x, i, u)",
    "ScatterElements": "m = Expand(i, shape) y = ScatterElements%s(x, m, u)",
}


@pytest.mark.parametrize("wrt", [["x"], ["u"], ["x", "u"]])
@pytest.mark.parametrize("reduction", ["", "none", "add", "mul", "max"])
@pytest.mark.parametrize("operator", PLACING)
def test_what_puts_rows_into_places(operator: str, reduction: str, wrt: list[str]) -> None:
    attributes = f'<reduction = "{reduction}">' if reduction else ""
    model = """(float[4,3] x, float[2,3] u) => (float[4,3] y) {
      i = Constant<value = int64[2,1] {2, 0}>() shape = Constant<value_ints = [2, 3]>()
      %s
    }"""
    assert_tangents(model % (PLACING[operator] % attributes), ["y"], wrt)


@pytest.mark.parametrize("wrt", [["x"], ["u"], ["x", "u"]])
def test_what_puts_rows_into_a_cache(wrt: list[str]) -> None:
    model = """(float[2,4,3] x, float[2,2,3] u, int64[2] i) => (float[2,4,3] y)
      { y = TensorScatter<mode = "circular", axis = 1>(x, u, i) }"""
    assert_tangents(model, ["y"], wrt, {"i": [3, 0]}, opset=24)


@pytest.mark.parametrize("wrt", [["a"], ["b"], ["a", "b"]])
@pytest.mark.parametrize("other", ["float[3]", "float[2,1]", "float", "float[A,B]"])
def test_what_chooses_among_values_of_other_shapes(other: str, wrt: list[str]) -> None:
    for a, b in (("float[2,3]", other), (other, "float[2,3]")):
        model = f"(bool[2,3] c, {a} a, {b} b) => (float[2,3] y) {{ y = Where(c, a, b) }}"
        sizes = {n: np.ones((2, 1), np.float32) for n, t in (("a", a), ("b", b)) if "A" in t}
        assert_tangents(model, ["y"], wrt, {"c": np.eye(2, 3) > 0, **sizes})


def test_what_is_not_chosen_in_second_order() -> None:
    model = """(float[3] x) => (float[3] y) {
      zero = Constant<value = float {0.0}>()
      some = Greater(x, zero)
      l = Log(x)
      y = Where(some, l, x)
    }"""
    pushed = jvp(parse(model), ["y"], ["x"])
    for again in (jvp(pushed, ["y_tangent"], ["x"]), vjp(pushed, ["y_tangent"], ["x"])):
        added = {str(value.name): np.ones(3, np.float32) for value in again.graph.inputs[2:]}
        *_, second = compile(again)(x=[2, 0, -1], x_tangent=[3, 5, 7], **added).values()
        assert second.tolist() == [-0.75, 0, 0]


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_buffers_that_are_written_and_read(trips: int) -> None:
    """Tangents are written to a buffer of theirs, as the rows are: one node for one."""
    model = """(int64 n, float[3,2] b, float[2] x) => (float[2] y, float[3,2] e) {
      size = Constant<value_int = 3>() place = Constant<value_ints = [1, 1]>()
      whole = Constant<value_ints = [1, 2]>()
      y, e = Loop(n, , x, b)
        <body = body (int64 i, bool c, float[2] v, float[3,2] f)
          => (bool go, float[2] u, float[3,2] g) {
        go = Identity(c)
        m = Mod(i, size)
        old = Gather(f, m)
        s = Add(v, old)
        u = Sin(s)
        row = Reshape(u, whole)
        at = Reshape(m, place)
        g = ScatterND(f, at, row)
      }>
    }"""
    assert_tangents(model, ["y", "e"], ["b", "x"], {"n": trips})
    (view,) = loops(jvp(parse(model), ["y", "e"], ["b", "x"]))
    body = [node.op_type for node in view.body]
    assert body.count("ScatterND") == 2
    assert not {"ScatterElements", "Range", "Expand"}.intersection(body)
