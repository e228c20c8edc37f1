"""Removing what nothing needs, without changing what is computed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from tests.judge import parse

from whileback.engines import compile
from whileback.graph.cleanup import clean, prune
from whileback.graph.scopes import walk


def cleaned(text: str, new: bool = False) -> ir.Model:
    """Return the model cleaned; `new` makes all its nodes count as the gradient's."""
    model = parse(text)
    for node in walk(model.graph) if new else ():
        node.metadata_props["whileback.from"] = "origin"
    clean(model)
    return model


def types(model: ir.Model) -> list[str]:
    return [node.op_type for node in walk(model.graph)]


def test_dead_nodes_go() -> None:
    assert types(cleaned("(float x) => (float y) { d = Exp(x) e = Neg(d) y = Sin(x) }")) == ["Sin"]


def test_unused_initializers_go_but_inputs_stay() -> None:
    model = parse("(float x, float u) => (float y) <float w = {1}> { y = Sin(x) }")
    prune(model.graph)
    assert [value.name for value in model.graph.inputs] == ["x", "u"]
    assert not model.graph.initializers


def test_copies_of_the_gradient_go_and_those_of_the_model_stay() -> None:
    text = "(float x) => (float y) { c = Identity(x) y = Sin(c) }"
    assert types(cleaned(text)) == ["Identity", "Sin"]
    assert types(cleaned(text, new=True)) == ["Sin"]


def test_equal_nodes_of_the_gradient_are_merged_also_into_bodies() -> None:
    text = """(bool p, float x) => (float y) {
      a = Exp(x)
      b = Exp(x)
      s = Add(a, b)
      y = If(p) <then_branch = t () => (float r) { c = Exp(x) r = Add(c, s) },
        else_branch = e () => (float q) { q = Neg(s) }>
    }"""
    assert types(cleaned(text, new=True)).count("Exp") == 1


def test_random_nodes_stay_apart() -> None:
    text = """(float[2] x) => (float[2] y) {
      a = RandomNormalLike(x)
      b = RandomNormalLike(x)
      y = Sub(a, b)
    }"""
    assert types(cleaned(text, new=True)).count("RandomNormalLike") == 2


def test_nodes_with_other_attributes_stay_apart() -> None:
    text = """(float[2,3] x) => (float[2] y) {
      a = ReduceMax<keepdims = 0, axes = [1]>(x)
      b = ReduceMax<keepdims = 0, axes = [-1]>(x)
      y = Sub(a, b)
    }"""
    model = parse(text, opset=17)
    for node in model.graph:
        node.metadata_props["whileback.from"] = "origin"
    clean(model)
    assert types(model).count("ReduceMax") == 2


LOOP = """(int64 M, float[2] x, float[2] a) => (float[2] y, float[T,2] s) {
  y, dead, s = Loop(M, , x)
    <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w, float[2] o, float[2] p) {
    go = Identity(c)
    e = Exp(a)
    w = Mul(v, e)
    o = Sin(w)
    p = Cos(w)
  }>
}"""


def test_a_loop_is_left_with_what_is_read() -> None:
    """The unread stack goes, and what no trip changes stands before the loop."""
    before = compile(parse(LOOP))(M=3, x=[1.0, 2.0], a=[0.1, 0.2])
    model = cleaned(LOOP)
    assert types(model) == ["Exp", "Loop", "Mul", "Cos"]
    after = compile(model)(M=3, x=[1.0, 2.0], a=[0.1, 0.2])
    assert list(after) == list(before)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_what_may_fail_stays_in_a_loop_that_may_make_no_trip() -> None:
    text = """(int64 M, float[3] x, int64 k) => (float y) {
      zero = Constant<value = float {0}>()
      y = Loop(M, , zero) <body = b (int64 i, bool c, float v) => (bool go, float w) {
        go = Identity(c)
        e = Gather(x, k)
        w = Add(v, e)
      }>
    }"""
    model = cleaned(text)
    assert compile(model)(M=0, x=np.ones(3, "f"), k=7)["y"] == 0.0


def test_what_fits_only_where_it_is_taken_stays_in_a_branch() -> None:
    """The other branch of the first `If` hands on nothing, which fits to nothing."""
    model = cleaned("""(bool p, int64 n, float[2] x, float[2] w) => (float[2] y) {
      kept = If(p) <then_branch = t () => (float[2] a) { a = Neg(x) },
        else_branch = e () => (float[0] b) { b = Constant<value = float[0] {}>() }>
      y = Loop(n, , x) <body = f (int64 i, bool c, float[2] v) => (bool go, float[2] u) {
        go = Identity(c)
        u = If(p) <then_branch = t2 () => (float[2] a2) {
            m = Mul(kept, w) k = Exp(w) r = Add(m, k) a2 = Add(v, r) },
          else_branch = e2 () => (float[2] b2) { b2 = Sub(v, w) }>
      }>
    }""")
    before = [node.op_type for node in model.graph]
    assert "Exp" in before
    assert "Mul" not in before
    run = compile(model)
    assert run(p=False, n=2, x=[1, 2], w=[3, 4])["y"].tolist() == [-5, -6]
    np.testing.assert_allclose(run(p=True, n=1, x=[1, 2], w=[0, 1])["y"], [2, np.e], rtol=1e-6)


def test_what_is_transposed_back_and_forth_is_not_transposed() -> None:
    text = """(float[2,3,4] x) => (float[N,M,K] y) {
      a = Transpose<perm = %s>(x) b = Transpose<perm = %s>(a) y = Neg(b)
    }"""
    assert types(cleaned(text % ("[1,2,0]", "[2,0,1]"), new=True)) == ["Neg"]
    for first, second in (("[1,2,0]", "[1,2,0]"), ("[0,2,1]", "[1,0,2]")):
        assert len(types(cleaned(text % (first, second), new=True))) == 3
    assert len(types(cleaned(text % ("[1,2,0]", "[2,0,1]")))) == 3


def test_unread_outputs_of_branches_go() -> None:
    model = cleaned("""(bool p, float x) => (float y) {
      dead, y = If(p) <then_branch = t () => (float a, float b) { a = Exp(x) b = Sin(x) },
        else_branch = e () => (float c, float d) { c = Neg(x) d = Cos(x) }>
    }""")
    assert types(model) == ["If", "Sin", "Cos"]
    assert compile(model)(p=False, x=0.0)["y"] == 1.0


def test_a_stack_of_the_numbers_of_the_trips() -> None:
    model = cleaned("""(int64 M, bool k) => (int64[T] y) {
      y = Loop(M, k) <body = b (int64 i, bool c) => (bool go, int64 row) {
        go = Identity(c)
        row = Identity(i)
      }>
    }""")
    assert compile(model)(M=3, k=True)["y"].tolist() == [0, 1, 2]
