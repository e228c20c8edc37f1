"""Rows that trips read of what earlier trips wrote are carried; the model computes what it did."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import EngineError
from whileback.gradient import vjp
from whileback.graph.scopes import is_loop, loop_view, walk

B0 = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32) / 2
LOOP = """(int64 M, float[N,2] B0, float[2] v0, int64 n) => (float[N,2] B, float[2] v) {
  B, v, count = Loop(M, , B0, v0, n)
    <body = b (int64 i, bool c, float[N,2] A, float[2] s, int64 j)
      => (bool d, float[N,2] Z, float[2] u, int64 next) {
    d = Identity(c)
    zero = Constant<value_ints = [0]>()
    pair = Constant<value_ints = [1, 1]>()
    one = Constant<value_int = 1>()
    two = Constant<value_int = 2>()
    three = Constant<value_int = 3>()
    half = Constant<value_float = 0.5>()
    next = Add(j, one)
    READ
    x1 = Mul(x, half)
    x2 = Add(x1, s)
    u = Sin(x2)
    r = Unsqueeze(u, zero)
    WRITE
  }>
}"""
WRITE = "k = Reshape(i, pair) Z = ScatterND(A, k, r)"
READS = {
    "the row before": ("y = Sub(i, one) x = Gather(A, y)", WRITE),
    "counted down to it": ("y0 = Sub(i, three) y = Add(two, y0) x = Gather(A, y)", WRITE),
    "as a list": (
        "y0 = Sub(i, one) y = Unsqueeze(y0, zero) x0 = Gather(A, y) x = Squeeze(x0, zero)",
        WRITE,
    ),
    "by coordinates": ("y0 = Sub(i, two) y = Unsqueeze(y0, zero) x = GatherND(A, y)", WRITE),
    "what is not written yet": ("y = Add(i, one) x = Gather(A, y)", WRITE),
    "through a copy": ("P = Identity(A) y = Sub(i, one) x = Gather(P, y)", WRITE),
    "as 32 bits": (
        "y0 = Cast<to = 6>(i) c1 = Cast<to = 6>(one) y = Sub(y0, c1) x = Gather(A, y)",
        WRITE,
    ),
    "two places further on": (
        "x = Gather(A, i)",
        "y = Add(i, two) k = Reshape(y, pair) Z = ScatterND(A, k, r)",
    ),
    "from a row without a list": (
        "y = Sub(i, one) x = Gather(A, y)",
        "k = Unsqueeze(i, zero) Z = ScatterND(A, k, u)",
    ),
}
STAYING = {
    "at a place that is given": ("y = Sub(j, one) x = Gather(A, y)", WRITE),
    "at a place that is rounded": (
        "y0 = Cast<to = 1>(i) y1 = Sub(y0, half) y = Cast<to = 7>(y1) x = Gather(A, y)",
        WRITE,
    ),
    "at a place that goes round": ("y = Mod(i, three) x = Gather(A, y)", WRITE),
    "in a branch": (
        """y = Sub(i, one) m = Mod(i, two) e = Cast<to = 9>(m)
        x = If(e) <then_branch = t () => (float[2] x3) { x3 = Gather(A, y) },
                   else_branch = o () => (float[2] x4) { x4 = Neg(s) }>""",
        WRITE,
    ),
    "many trips ago": ("c0 = Constant<value_int = 17>() y = Sub(i, c0) x = Gather(A, y)", WRITE),
    "from its end, when it may be written": (
        "y = Sub(i, one) x = Gather(A, y)",
        "k0 = Add(i, one) k1 = Sub(k0, three) k = Reshape(k1, pair) Z = ScatterND(A, k, r)",
    ),
}


def text(read: str, write: str) -> str:
    return LOOP.replace("READ", read).replace("WRITE", write)


def carries(model: ir.Model) -> list[str]:
    """Return the names of what the forward loop carries."""
    first = next(node for node in walk(model.graph) if is_loop(node))
    return [str(carry.input.name) for carry in loop_view(first).carries]


@pytest.mark.parametrize("name", READS)
def test_reads(name: str) -> None:
    model = text(*READS[name])
    for trips in (0, 1, 6):
        inputs = {"M": trips, "B0": B0, "n": 1}
        assert_gradient(model, ["B", "v"], ["B0", "v0"], inputs, second_order=trips == 6)
    assert "A" not in carries(vjp(parse(model), ["B"], ["v0"]))


@pytest.mark.parametrize("name", STAYING)
def test_others_stay(name: str) -> None:
    model = text(*STAYING[name])
    rows = np.concatenate([B0, B0, B0])
    assert_gradient(model, ["B", "v"], ["B0", "v0"], {"M": 6, "B0": rows, "n": 1})
    assert "A" in carries(vjp(parse(model), ["B"], ["v0"]))


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("name", READS)
def test_what_could_not_be_read_is_not_read(name: str, rows: int) -> None:
    """A loop that makes no trip reads nothing, however few rows there are; others fail, or do not,
    as the model does."""
    model = parse(text(*READS[name]))
    made = compile(vjp(model, ["B", "v"], ["B0", "v0"]))
    for trips in range(rows + 2):
        inputs = {"M": trips, "B0": B0[:rows], "n": 1, "v0": B0[8]}
        seeds = {"B_grad": B0[:rows], "v_grad": B0[8]}
        try:
            expected = compile(model)(inputs)
        except EngineError:
            with pytest.raises(EngineError):
                made(inputs | seeds)
            continue
        np.testing.assert_allclose(made(inputs | seeds)["B"], expected["B"], rtol=1e-6)


@pytest.mark.parametrize("memory", ["keep", "recompute", "checkpoint"])
def test_memory_strategies(memory: str) -> None:
    model = text(*READS["by coordinates"])
    inputs = {"M": 7, "B0": B0, "n": 1}
    assert_gradient(model, ["B", "v"], ["B0", "v0"], inputs, memory=memory)


def test_scans_that_count() -> None:
    model = """(float[N,2] B0, float[T,2] x) => (float[N,2] B, float[T] y) {
      start = Constant<value_int = 2>()
      B, count, y = Scan<num_scan_inputs = 1, body = b
          (float[N,2] A, int64 place, float[2] row) => (float[N,2] Z, int64 next, float e) {
        one = Constant<value_int = 1>()
        axis = Constant<value_ints = [0]>()
        next = Add(place, one)
        before = Sub(next, one)
        p = Sub(before, one)
        l = Gather(A, p)
        m = Mul(l, row)
        r = Sin(m)
        k = Unsqueeze(place, axis)
        Z = ScatterND(A, k, r)
        e = ReduceSum<keepdims = 0>(r)
      }>(B0, start, x)
    }"""
    inputs = {"x": B0[:5], "B0": B0}
    assert_gradient(model, ["B", "y"], ["B0", "x"], inputs, second_order=True)
    assert "A" not in carries(vjp(parse(model), ["B"], ["x"]))


ENDING = """(float[N] B0, float x, bool go) => (float[N] B, float y) {
  B, y = Loop(, go, B0, x)
      <body = b (int64 i, bool c, float[N] A, float s) => (bool d, float[N] Z, float u) {
    one = Constant<value_int = 1>()
    axis = Constant<value_ints = [0]>()
    least = Constant<value_float = 0.6>()
    p = Sub(i, one)
    l = Gather(A, p)
    m = Add(l, s)
    u = Sin(m)
    d = Less(u, least)
    at = Unsqueeze(i, axis)
    Z = ScatterND(A, at, u)
  }>
}"""


@pytest.mark.parametrize("go", [False, True])
def test_loops_that_end_when_they_are_done(go: bool) -> None:
    inputs = {"x": np.float32(0.1), "go": go, "B0": np.full(6 * go, 0.1, np.float32)}
    assert_gradient(ENDING, ["B", "y"], ["B0", "x"], inputs, second_order=True)
    assert "A" not in carries(vjp(parse(ENDING), ["B"], ["x"]))


def test_elements_of_whole_numbers_that_the_runtime_cannot_split_stay() -> None:
    model = """(int64 M, float x, uint8 k) => (float y, seq(uint8) s) {
      s0 = SequenceConstruct(k)
      y, s = Loop(M, , x, s0)
        <body = b (int64 i, bool c, float v, seq(uint8) p) => (bool d, float w, seq(uint8) q) {
        d = Identity(c)
        w = Sin(v)
        q = SequenceInsert(p, k)
      }>
    }"""
    got = compile(vjp(parse(model), ["y"], ["x"]))(M=3, x=0.5, k=7, y_grad=1)
    assert [int(each) for each in got["s"]] == [7, 7, 7, 7]


def test_captured_sequences_may_be_empty() -> None:
    model = """(int64 M, float[N,2] x, float[2] v0) => (float[2] v) {
      z = SplitToSequence<axis = 0, keepdims = 0>(x)
      v = Loop(M, , v0) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
        d = Identity(c)
        n = Neg(i)
        l = SequenceAt(z, n)
        m = Mul(l, s)
        t = Sin(m)
      }>
    }"""
    for trips, rows in ((0, 0), (0, 3), (3, 3)):
        inputs = {"M": trips, "x": B0[:rows]}
        assert_gradient(model, ["v"], ["x", "v0"], inputs, second_order=trips == 3)
    made = vjp(parse(model), ["v"], ["x"])
    bodies = [loop_view(node).body for node in walk(made.graph) if is_loop(node)]
    types = {each.op_type for body in bodies for each in body}
    assert types.isdisjoint({"SequenceMap", "SequenceAt", "SequenceInsert"})


@pytest.mark.parametrize("read", ["i", "last"])
def test_what_is_put_behind_a_sequence_is_a_row_that_was_read(read: str) -> None:
    """The node that reads it is replaced, and then the row is what stands for that node."""
    model = """(float[2] w, int64 m) => (float[2] y) {
      last = Constant<value = int64 {-1}>()
      axis = Constant<value = int64[1] {0}>()
      first = SequenceConstruct(w)
      rows = Loop(m, , first)
        <body = b (int64 i, bool c, seq(float[2]) q) => (bool go, seq(float[2]) r) {
          a = SequenceAt(q, READ)
          r = SequenceInsert(q, a)
          go = Identity(c)
        }>
      all = ConcatFromSequence<axis = 0, new_axis = 1>(rows)
      s = Sin(all)
      y = ReduceSum<keepdims = 0>(s, axis)
    }""".replace("READ", read)
    assert_gradient(model, ["y"], ["w"], {"m": 3})
