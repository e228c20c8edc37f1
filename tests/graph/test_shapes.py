"""Inference of shapes, above all of what loops carry."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import EngineError, GraphError
from whileback.gradient import jvp, vjp
from whileback.graph.scopes import definitions, subgraphs, walk
from whileback.graph.shapes import Shapes, describe, same_dim, same_shape, size, static_shape


def inferred(text: str) -> dict[str, str]:
    """Return the types of all values, bodies included."""
    model = parse(text)
    Shapes(model.graph.opset_imports).infer_graph(model.graph)
    graphs = [model.graph, *(inner for node in walk(model.graph) for inner in subgraphs(node))]
    return {str(v.name): describe(v) for each in graphs for v in definitions(each)}


def test_a_carried_value_has_the_shape_of_its_initial_value() -> None:
    shapes = inferred(
        """(int64 M, float[N,4] x, float[4,4] w) => (float[A,B] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float v) => (bool go, float u) {
        go = Identity(c)
        u = MatMul(v, w)
      }>
    }""".replace("float v)", "float[P,Q] v)").replace("float u)", "float[R,S] u)")
    )
    assert shapes["v"] == shapes["u"] == "FLOAT[N,4]"


def test_a_dimension_that_a_trip_changes_is_forgotten_and_no_other() -> None:
    shapes = inferred("""(int64 M, float[2,4] x) => (float[A,B] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[P,Q] v) => (bool go, float[R,S] u) {
        go = Identity(c)
        u = Concat<axis = 0>(v, v)
      }>
    }""")
    assert shapes["v"].endswith(",4]")
    assert not shapes["v"].startswith("FLOAT[2")


def test_what_depends_on_a_forgotten_dimension_is_inferred_anew() -> None:
    shapes = inferred("""(int64 M, float[2,4] x) => (float[A,B] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[P,Q] v) => (bool go, float[R,S] u) {
        go = Identity(c)
        d = Neg(v)
        u = Concat<axis = 0>(d, v)
      }>
    }""")
    assert shapes["d"] == shapes["v"] != "FLOAT[2,4]"


def test_symbols_of_a_body_are_those_of_the_values_outside() -> None:
    shapes = inferred("""(int64 M, float[N] x) => (float[A] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[K] v) => (bool go, float[K] u) {
        go = Identity(c)
        u = Sin(v)
      }>
    }""")
    assert shapes["v"] == shapes["u"] == "FLOAT[N]"


def test_rows_of_a_scan_lose_the_axis() -> None:
    shapes = inferred("""(float[2] h, float[T,2] x) => (float[2] y, float[A,B] s) {
      y, s = Scan<num_scan_inputs = 1, scan_output_axes = [1],
        body = b (float[P] v, float[Q] r) => (float[R] w, float[S] o) { w = Add(v, r) o = Exp(w) }
      >(h, x)
    }""")
    assert shapes["r"] == shapes["w"] == "FLOAT[2]"


def test_branches_have_in_common_what_holds_for_both() -> None:
    shapes = inferred("""(bool p, float[N,2] x) => (float[A,B] y) {
      z = If(p) <then_branch = t () => (float[C,D] a) { a = Neg(x) },
        else_branch = e () => (float[E,F] b) { b = Concat<axis = 1>(x, x) }>
      y = Neg(z)
    }""")
    assert shapes["z"].startswith("FLOAT[N,")
    assert not shapes["z"].endswith(("2]", "4]"))


def test_sizes_of_a_split_that_only_the_run_knows() -> None:
    shapes = inferred("""(float[6,2] x, int64[2] sizes) => (float[A,2] a, float[B,2] b) {
      p, q = Split<axis = 0>(x, sizes)
      a = Neg(p)
      b = Neg(q)
    }""")
    assert shapes["p"] != "FLOAT[3,2]"


def test_an_operator_on_wrong_types_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match=r"Node 'bad' \(MatMul\) is not valid"):
        inferred("""(float[2,3] x, float[4,5] y) => (float[2,5] z) { [bad] z = MatMul(x) }""")


def test_comparisons_of_shapes() -> None:
    a, b = ir.val("a", ir.DataType.FLOAT, ["N", 3]), ir.val("b", ir.DataType.FLOAT, ["N", 3])
    c, unknown = ir.val("c", ir.DataType.FLOAT, ["M", 3]), ir.val("u", ir.DataType.FLOAT)
    assert same_shape(a, b)
    assert not same_shape(a, c)
    assert not same_shape(unknown, unknown)
    assert not same_dim(ir.SymbolicDim(None), ir.SymbolicDim(None))
    assert static_shape(a) is None
    assert size(ir.val("d", ir.DataType.FLOAT, [2, 0, 3])) == 0
    assert describe(unknown) == "FLOAT[?]"


BROADCAST_LOOP = """(int64 n, float[N,H] h0, float[M,K] x, float[4,4] w) => (float[A,B] y) {
  y = Loop(n, , h0) <body = b (int64 i, bool c, float[P,Q] v) => (bool go, float[R,S] u) {
    go = Identity(c)
    a = MatMul(v, w)
    b = Add(a, x)
    u = Tanh(b)
  }>
}"""


def test_two_symbols_that_meet_give_neither_of_them() -> None:
    text = "(float[A] x, float[B] y, float[1] z) => (float[K] s, float[L] t, float[O] u) "
    shapes = inferred(text + "{ p = Add(x, y) q = Mul(y, x) s = Neg(p) t = Neg(q) u = Add(x, z) }")
    assert shapes["p"] == shapes["q"] == "FLOAT[max(A,B)]"


def test_symbols_of_size_one_and_others_broadcast_right() -> None:
    text = """(float[A,B] x, float[P,Q] z) => (float[N] y) {
      k = Exp(z)
      s = Mul(x, k)
      all = Constant<value_ints = [-1]>()
      y = Reshape(s, all)
    }"""
    for x, z in (((2, 3), (2, 3)), ((2, 3), (2, 1)), ((2, 1), (2, 3)), ((1, 3), (2, 1))):
        inputs = {"x": np.ones(x, "f") + 0.5, "z": np.ones(z, "f")}
        assert_gradient(text, ["y"], ["x", "z"], inputs)


@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_carried_value_may_keep_a_size_that_only_the_run_knows(trips: int, rows: int) -> None:
    inputs = {"n": trips, "h0": np.ones((3, 4), "f") / 8, "x": np.ones((rows, 4), "f") / 2}
    assert_gradient(BROADCAST_LOOP, ["y"], ["h0", "x", "w"], inputs)


def test_a_carried_value_that_does_change_its_size_is_never_a_wrong_number() -> None:
    text = """(int64 n, float[N] h0, float[M] x) => (float[A] y) {
      y = Loop(n, , h0) <body = b (int64 i, bool c, float[P] v) => (bool go, float[R] u) {
        go = Identity(c)
        u = Add(v, x)
      }>
    }"""
    model = compile(vjp(parse(text), ["y"], ["h0"]))
    with pytest.raises(EngineError, match="a_trip_must_not_change_the_shape_of_v"):
        model(n=2, h0=np.ones(1, "f"), x=np.ones(3, "f"), y_grad=np.ones(3, "f"))


def test_symbols_that_are_no_identifiers_come_back() -> None:
    text = """(float[N] x) => (float[K] y) { h = Concat<axis = 0>(x, x) y = Sin(h) }"""
    model = parse(text)
    model.graph.inputs[0].shape = ir.Shape(["/a/b c"])
    result = vjp(model, ["y"], ["x"])
    assert describe(result.graph.inputs[0]) == "FLOAT[/a/b c]"
    assert describe(result.graph.outputs[1]) == "FLOAT[/a/b c]"


def test_a_size_whose_name_cannot_be_read_is_unknown_and_no_fault_of_the_model() -> None:
    x = ir.val("x", ir.DataType.FLOAT, ["N) + (", 2])
    nodes = [ir.node("Concat", [x, x], {"axis": 0}), ir.node("Flatten", [x], {"axis": 0})]
    graph = ir.Graph([x], [n.outputs[0] for n in nodes], nodes=nodes, opset_imports={"": 21})
    Shapes(graph.opset_imports).infer_graph(graph)
    assert [value.dtype for value in graph.outputs] == [ir.DataType.FLOAT] * 2


def test_sizes_that_trips_change_have_names_of_their_own_in_each_loop() -> None:
    shapes = inferred("""(int64 n, float[N] x) => (float[K] y) {
      y = Loop(n, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
        go = Identity(c)
        s = Sin(v)
        w = Loop(n, , s) <body = d (int64 j, bool e, float[P] p) => (bool on, float[R] q) {
          on = Identity(e)
          t = Sin(p)
          q = Concat<axis = 0>(t, p)
        }>
      }>
    }""")
    assert shapes["s"] == shapes["v"]
    assert shapes["t"] == shapes["p"]
    assert len({shapes[name] for name in "xvwpq"}) == 5


@pytest.mark.parametrize("declared", ["", "[2]", "[2,3]", "[2,2,1]", "[3,N]"])
@pytest.mark.parametrize("inner", ["", "<float{} h>"])
def test_what_is_computed_counts_where_something_else_is_declared(
    declared: str, inner: str
) -> None:
    """Runtimes run such models, and only warn."""
    text = f"(float[2,3] x, float[3,2] w) => (float{declared} y) {inner.format(declared)} {{"
    model = parse(text + " h = MatMul(x, w) z = Sin(h) y = Mul(z, h) }")
    for derived, names in ((vjp(model, "y", "x"), ["y_grad"]), (jvp(model, "y", "x"), [])):
        shapes = {v.name: v.shape for v in (*derived.graph.inputs, *derived.graph.outputs)}
        assert [shapes[name] for name in ["y", *names]] == [[2, 2]] * (1 + len(names))
        onnx.checker.check_model(ir.to_proto(derived), full_check=True)


@pytest.mark.parametrize("number, to, name", [(200, 3, "INT8"), (-1, 13, "UINT64")])
def test_constants_that_are_cast_to_a_type_without_such_numbers(
    number: int, to: int, name: str
) -> None:
    shapes = inferred(f"""(float[2] x) => (float[2] y) {{
      c = Constant<value_ints = [{number}]>() a = Cast<to = {to}>(c) y = Identity(x)
    }}""")
    assert shapes["a"] == f"{name}[1]"
