"""Sequences that loops carry as tensors; that all kinds are right stands in test_every_kind.py."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import EngineError
from whileback.gradient import vjp
from whileback.graph.scopes import is_loop, loop_view, walk

LOOP = """(int64 M, float[N,2] x, float[2] h0, float[2] w) => (float[K,2] v, float[2] h) {
  v0 = %s
  vs, h = Loop(M, , v0, h0)
    <body = b (int64 i, bool c, seq(float[%s]) p, float[2] s)
      => (bool d, seq(float[%s]) q, float[2] t) {
    d = Identity(c)
    zero = Constant<value_ints = [0]>()
    first = Constant<value_int = 0>()
    second = Constant<value_int = 1>()
    place = Mul(i, second)
    %s
  }>
  v = ConcatFromSequence<axis = 0>(vs)
}"""
ROWS = "SplitToSequence<axis = 0>(x)"
INPUTS = {
    "x": np.float32([[0.5, -0.3], [0.2, 0.7]]),
    "h0": np.float32([0.4, 0.9]),
    "w": np.float32([0.8, -0.6]),
}


def text(first: str, body: str, kind: str = "1,2") -> str:
    return LOOP % (first, kind, kind, body)


@pytest.mark.parametrize("trips", [1, 3])
def test_what_was_inserted_is_joined_with_nothing_before(trips: int) -> None:
    body = """o = Mul(s, w) e = Sin(o) u = Unsqueeze(e, zero) q = SequenceInsert(p, u)
        j = ConcatFromSequence<axis = 0>(q) t = ReduceSum<keepdims = 0>(j, zero)"""
    assert_gradient(
        text("SequenceEmpty<dtype = 1>()", body),
        ["v", "h"],
        ["h0", "w"],
        INPUTS | {"M": np.int64(trips)},
    )


@pytest.mark.parametrize(
    ("kind", "place", "stays"),
    [("1,2", "", False), ("1,2", ", first", False), ("1,2", ", place", True), ("k,2", "", True)],
)
def test_which_sequences_stay(kind: str, place: str, stays: bool) -> None:
    """Those whose elements may differ, and those in which an element is put amid others."""
    rows = ROWS if kind == "1,2" else "SequenceConstruct(x)"
    inserted = f"""o = Mul(s, w) u = Unsqueeze(o, zero) q = SequenceInsert(p, u{place})
        j = ConcatFromSequence<axis = 0>(p) t = ReduceSum<keepdims = 0>(j, zero)"""
    model = vjp(parse(text(rows, inserted, kind)), ["v", "h"], ["x", "h0", "w"])
    bodies = [loop_view(node).body for node in walk(model.graph) if is_loop(node)]
    found = {node.op_type for body in bodies for node in body}
    assert ("SequenceInsert" in found) is stays


def test_nothing_is_taken_from_nothing() -> None:
    body = "t = Mul(s, w) q = SequenceErase(p)"
    model = vjp(parse(text(ROWS, body)), ["v", "h"], ["x", "h0", "w"])
    feeds = {"v_grad": np.ones((1, 2), np.float32), "h_grad": np.ones(2, np.float32)}
    run = compile(model)
    assert run(INPUTS | feeds | {"M": np.int64(1)})["v"].shape == (1, 2)
    with pytest.raises(EngineError, match="Split"):
        run(INPUTS | feeds | {"M": np.int64(3)})


@pytest.mark.parametrize("inner", ["loop", "scan"])
def test_loops_in_the_body_that_nobody_reads(inner: str) -> None:
    """They are gone when the body is rewritten."""
    carried = "float[2] v) => (bool on, float[2] u) { on = Identity(e)"
    loops = {
        "loop": f"unread = Loop(i, , a) <body = d (int64 j, bool e, {carried} u = Sin(v) }}>",
        "scan": "unread = Scan(a, w) <num_scan_inputs = 1, body = d (float[2] v, float e) "
        "=> (float[2] u) { u = Mul(v, e) }>",
    }
    model = """(float[2] w, int64 m) => (float[2] y) {
      zero = Constant<value = int64 {0}>()
      axis = Constant<value = int64[1] {0}>()
      first = SequenceConstruct(w)
      rows = Loop(m, , first)
        <body = b (int64 i, bool c, seq(float[2]) q) => (bool go, seq(float[2]) r) {
          a = SequenceAt(q, zero)
          UNREAD
          s = Sin(a)
          r = SequenceInsert(q, s)
          go = Identity(c)
        }>
      all = ConcatFromSequence<axis = 0, new_axis = 1>(rows)
      y = ReduceSum<keepdims = 0>(all, axis)
    }""".replace("UNREAD", loops[inner])
    assert_gradient(model, ["y"], ["w"], {"m": 3})


@pytest.mark.parametrize(
    "read", ["SequenceAt(q, zero)", "SequenceAt(q, last)", "SequenceAt(q, i)"], ids=str
)
def test_what_is_read_is_what_another_value_becomes(read: str) -> None:
    """The node that reads it is replaced, and with it what the body returns."""
    model = """(float[2] w, float[2] v, int64 m) => (float[2] y, float[2] z) {
      zero = Constant<value = int64 {0}>()
      last = Constant<value = int64 {-1}>()
      axis = Constant<value = int64[1] {0}>()
      first = SequenceConstruct(w)
      rows, z, stack = Loop(m, , first, v)
        <body = b (int64 i, bool c, seq(float[2]) q, float[2] p)
          => (bool go, seq(float[2]) r, float[2] a, float[2] e) {
          a = READ
          s = Mul(a, p)
          e = Sin(s)
          r = SequenceInsert(q, e)
          go = Identity(c)
        }>
      all = ConcatFromSequence<axis = 0, new_axis = 1>(rows)
      both = Concat<axis = 0>(all, stack)
      y = ReduceSum<keepdims = 0>(both, axis)
    }""".replace("READ", read)
    assert_gradient(model, ["y", "z"], ["w", "v"], {"m": 3}, second_order=True)
