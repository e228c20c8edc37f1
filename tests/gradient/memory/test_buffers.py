"""Buffers that a loop writes and never reads are written once, after it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback import compile
from whileback.gradient import vjp
from whileback.gradient.memory.strategies import Memory
from whileback.graph.scopes import is_loop, loop_view, walk

INDICES = np.array([3, 3, 1, -1, 0, 3, 8])
B0 = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
LOOP = """(int64 M, float[%s] B0, int64[T] indices, float[4] v0) => (float[%s] B, float[4] v) {
  B, v = Loop(M, , B0, v0)
    <body = b (int64 i, bool c, float[%s] A, float[4] s) => (bool d, float[%s] Z, float[4] u) {
    d = Identity(c)
    one = Constant<value_ints = [1, 1]>()
    zero = Constant<value_ints = [0]>()
    three = Constant<value_int = 3>()
    half = Constant<value_float = 0.5>()
    p = Sin(s)
    u = Add(p, half)
    r = Unsqueeze(u, zero)
    %s
  }>
}"""
WRITES = {
    "in order": "k = Reshape(i, one) Z = ScatterND(A, k, r)",
    "from the end": "n = Neg(i) k = Reshape(n, one) Z = ScatterND(A, k, r)",
    "again and again": "m = Mod(i, three) k = Reshape(m, one) Z = ScatterND(A, k, r)",
    "at given places": "m = Gather(indices, i) k = Reshape(m, one) Z = ScatterND(A, k, r)",
    "a row without a list": "k = Unsqueeze(i, zero) Z = ScatterND(A, k, u)",
    "what is carried": "k = Unsqueeze(i, zero) t = Identity(s) Z = ScatterND(A, k, t)",
    "what is captured": "k = Unsqueeze(i, zero) Z = ScatterND(A, k, v0)",
    "at one place": "k = Constant<value_ints = [2]>() Z = ScatterND(A, k, u)",
    "two rows": """k0 = Reshape(i, one) k1 = Sub(k0, three) k = Concat<axis = 0>(k0, k1)
        r1 = Neg(r) rs = Concat<axis = 0>(r, r1) Z = ScatterND(A, k, rs)""",
    "an element": """k0 = Unsqueeze(i, zero) k1 = Mod(k0, three) k = Concat<axis = 0>(k0, k1)
        e = ReduceSum<keepdims = 0>(u) Z = ScatterND(A, k, e)""",
    "elements of a row": """shape = Constant<value_ints = [1, 4]>() m = Gather(indices, i)
        k = Expand(m, shape) Z = ScatterElements(A, k, r)""",
    "elements of a column": """first = Constant<value = int64[2,1] {0, 2}>() m = Mod(i, three)
        k0 = Add(first, m) n = Neg(k0) k = Mod(n, three) two = Constant<value_ints = [2]>()
        axis = Constant<value_ints = [1]>() r0 = Slice(u, zero, two) r1 = Unsqueeze(r0, axis)
        Z = ScatterElements<axis = 1>(A, k, r1)""",
    "of which the size is read": """w = Shape<start = 1>(A) k = Unsqueeze(i, zero)
        t = Expand(half, w) q = Add(t, u) Z1 = ScatterND(A, k, q) Z = Identity(Z1)""",
}


def loops(model: ir.Model) -> list[ir.Node]:
    return [node for node in walk(model.graph) if is_loop(node)]


def carries(model: ir.Model) -> list[str]:
    """Return the names of what the forward loop carries."""
    return [str(carry.input.name) for carry in loop_view(loops(model)[0]).carries]


@pytest.mark.parametrize("dims", ["N, 4", "N, K"])
@pytest.mark.parametrize("write", WRITES)
def test_writes(write: str, dims: str) -> None:
    text = LOOP % (*[dims] * 4, WRITES[write])
    for trips in (0, 1, 7):
        inputs = {"M": trips, "B0": B0, "indices": INDICES}
        second = trips == 7 and dims == "N, 4"
        assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs, second_order=second)
    assert "A" not in carries(vjp(parse(text), ["B"], ["v0"]))


@pytest.mark.parametrize("memory", ["keep", "recompute", "checkpoint", {"B": "checkpoint"}])
def test_strategies(memory: Memory) -> None:
    text = LOOP % (*["N, 4"] * 4, WRITES["at given places"])
    inputs = {"M": 7, "B0": B0, "indices": INDICES}
    assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs, memory=memory)


@pytest.mark.parametrize("dtype", ["double", "float16"])
def test_types(dtype: str) -> None:
    text = (LOOP % (*["N, 4"] * 4, WRITES["again and again"])).replace("float[", f"{dtype}[")
    text = text.replace("u = Add(p, half)", "u = Cos(p)")
    inputs = {"M": 7, "B0": B0.astype(dtype), "indices": INDICES}
    assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs)


SCAN = """(float[N,3] B0, int64[K] K0, int64 start, float[T,3] x, float w)
    => (float[N,3] B, int64[K] J, float y) {
  B, J, last, y = Scan<num_scan_inputs = 1, body = b
      (float[N,3] A, int64[K] G, int64 place, float s, float[3] row)
      => (float[N,3] A2, int64[K] G2, int64 next, float z) {
    one = Constant<value_int = 1>()
    axis = Constant<value_ints = [0]>()
    next = Sub(place, one)
    k = Unsqueeze(place, axis)
    r = Mul(row, w)
    A2 = ScatterND(A, k, r)
    G2 = ScatterND(G, k, place)
    e = ReduceSum<keepdims = 0>(r)
    t = Add(e, s)
    z = Sin(t)
  }>(B0, K0, start, w, x)
}"""


@pytest.mark.parametrize("trips", [1, 7])
def test_scans_and_buffers_of_whole_numbers(trips: int) -> None:
    """The place counts down and so goes on at the buffers' end."""
    inputs = {"x": B0[:trips, :3], "B0": B0[:, 1:], "K0": np.arange(9), "start": 2}
    assert_gradient(SCAN, ["B", "y"], ["B0", "x", "w"], inputs, second_order=trips == 7)
    assert carries(vjp(parse(SCAN), ["B"], ["x"])) == ["place", "s"]


NESTED = """(int64 M, int64 K, float[N,N] B0, float x) => (float[N,N] B, float y) {
  B, y = Loop(M, , B0, x)
      <body = b (int64 i, bool c, float[N,N] A, float s) => (bool d, float[N,N] Z, float u) {
    d = Identity(c)
    Z, u = Loop(K, , A, s)
        <body = e (int64 j, bool f, float[N,N] P, float q) => (bool g, float[N,N] R, float t) {
      g = Identity(f)
      axis = Constant<value_ints = [0]>()
      k0 = Unsqueeze(i, axis)
      k1 = Unsqueeze(j, axis)
      k = Concat<axis = 0>(k0, k1)
      t = Sin(q)
      R = ScatterND(P, k, t)
    }>
  }>
}"""


@pytest.mark.parametrize(("outer", "inner"), [(0, 3), (3, 0), (2, 4)])
def test_loops_in_loops(outer: int, inner: int) -> None:
    inputs = {"M": outer, "K": inner, "B0": B0[:4]}
    assert_gradient(NESTED, ["B", "y"], ["B0", "x"], inputs, second_order=outer == 2)


ENDING = """(float[N] B0, float x, float least) => (float[N] B, float y) {
  zero = Constant<value_int = 0>()
  go = Greater(x, least)
  B, k, y = Loop(, go, B0, zero, x)
      <body = b (int64 i, bool c, float[N] A, int64 place, float s)
      => (bool d, float[N] Z, int64 next, float u) {
    one = Constant<value_int = 1>()
    axis = Constant<value_ints = [0]>()
    u = Sin(s)
    d = Greater(u, least)
    next = Add(place, one)
    at = Unsqueeze(place, axis)
    Z = ScatterND(A, at, u)
  }>
}"""


@pytest.mark.parametrize(("least", "trips"), [(2.0, 0), (0.96, 1), (0.75, 3)])
def test_loops_that_end_when_they_are_done(least: float, trips: int) -> None:
    inputs = {"x": np.float32(1.25), "least": np.float32(least), "B0": B0[0]}
    changed = compile(parse(ENDING))(inputs)["B"] != B0[0]
    assert changed.sum() == trips
    assert_gradient(ENDING, ["B", "y"], ["B0", "x"], inputs, second_order=trips == 3)
    assert carries(vjp(parse(ENDING), ["B"], ["x"])) == ["place", "s"]


STAYING = {
    "read": """k = Unsqueeze(i, zero) m = Mod(i, three) y = Gather(A, m) w = Add(y, u)
        Z = ScatterND(A, k, w)""",
    "read after it is written": """k = Unsqueeze(i, zero) Z = ScatterND(A, k, u)
        y = ReduceSum(Z)""",
    "added to": 'k = Reshape(i, one) Z = ScatterND<reduction = "add">(A, k, r)',
    "written twice": """k = Unsqueeze(i, zero) Z0 = ScatterND(A, k, u) n = Neg(k)
        Z = ScatterND(Z0, n, s)""",
    "written in a branch": """k = Reshape(i, one) m = Mod(i, three) e = Cast<to = 9>(m)
        Z = If(e) <then_branch = t () => (float[N, 4] Z1) { Z1 = ScatterND(A, k, r) },
        else_branch = o () => (float[N, 4] Z2) { Z2 = Identity(A) }>""",
    "exchanged": "Z = Neg(A)",
}


@pytest.mark.parametrize("write", STAYING)
def test_what_is_not_only_written_stays(write: str) -> None:
    text = LOOP % (*["N, 4"] * 4, STAYING[write])
    inputs = {"M": 4, "B0": B0, "indices": INDICES}
    assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs, second_order=True)
    assert "A" in carries(vjp(parse(text), ["B"], ["B0"]))


def test_a_buffer_of_few_rows_stays() -> None:
    for rows, stays in ((9, True), (16, True), (17, False)):
        text = LOOP % (*[f"{rows}, 4"] * 4, WRITES["again and again"])
        assert ("A" in carries(vjp(parse(text), ["B"], ["v0"]))) == stays


def test_a_stack_of_buffers_stays() -> None:
    text = """(int64 M, float[N] B0, float x) => (float[N] B, float[T,N] all) {
      B, all = Loop(M, , B0)
          <body = b (int64 i, bool c, float[N] A) => (bool d, float[N] Z, float[N] Z) {
        d = Identity(c)
        axis = Constant<value_ints = [0]>()
        k = Unsqueeze(i, axis)
        Z = ScatterND(A, k, x)
      }>
    }"""
    assert_gradient(text, ["B", "all"], ["B0", "x"], {"M": 3, "B0": B0[0]})
    assert carries(vjp(parse(text), ["B"], ["x"])) == ["A"]
