"""Gradients of loops that carry or read sequences."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp
from whileback.graph.scopes import walk

READ = """(int64 M, float[4,2] x) => (float[2] y) {
  z = SplitToSequence<axis = 0, keepdims = 0>(x)
  k = Constant<value_int = 0>()
  row = SequenceAt(z, k)
  y = Loop(M, , row) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
    go = Identity(c)
    a = SequenceAt(z, i)
    w = Mul(v, a)
  }>
}"""
READ_INSIDE = """(int64 M, float[4,2] x) => (float[2] y) {
  z = SplitToSequence<axis = 0, keepdims = 0>(x)
  k = Constant<value_int = 0>()
  row = SequenceAt(z, k)
  y = Loop(M, , row) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
    go = Identity(c)
    w = Loop(i, , v) <body = d (int64 j, bool e, float[2] p) => (bool on, float[2] q) {
      on = Identity(e)
      a = SequenceAt(z, j)
      q0 = Mul(p, a)
      q = Sin(q0)
    }>
  }>
}"""
HISTORY = """(int64 M, float[2] x) => (float[T,2] y, float[] q) {
  s0 = SequenceConstruct(x, x)
  s = Loop(M, , s0)
      <body = b (int64 i, bool c, seq(float[2]) t)
        => (bool go, seq(float[2]) r) {
    go = Identity(c)
    a = SequenceAt(t, i)
    n = SequenceLength(t)
    one = Constant<value_int = 1>()
    last = Sub(n, one)
    b = SequenceAt(t, last)
    p = Mul(a, b)
    e = Sin(p)
    r = SequenceInsert(t, e)
  }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
  h = Sin(y)
  q = ReduceSum<keepdims = 0>(h)
}"""
QUEUE = """(int64 M, float[2] x, float[2] z) => (float[T,2] y) {
  s0 = SequenceConstruct(x, z, x)
  s = Loop(M, , s0)
      <body = b (int64 i, bool c, seq(float[2]) t)
        => (bool go, seq(float[2]) r) {
    go = Identity(c)
    zero = Constant<value_int = 0>()
    a = SequenceAt(t, zero)
    n = SequenceErase(t, zero)
    b = SequenceAt(n, zero)
    p = Mul(a, b)
    e = Sin(p)
    r = SequenceInsert(n, e, zero)
  }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""
CACHE = """(int64 M, float[1,2] x, float[2,2] W) => (float[T,2] y) {
  s0 = SequenceConstruct(x)
  h, s = Loop(M, , x, s0)
      <body = b (int64 i, bool c, float[1,2] h, seq(float[1,2]) t)
        => (bool go, float[1,2] g, seq(float[1,2]) r) {
    go = Identity(c)
    K = ConcatFromSequence<axis = 0>(t)
    kt = Transpose(K)
    q = MatMul(h, W)
    sc = MatMul(q, kt)
    at = Softmax(sc)
    g1 = MatMul(at, K)
    g2 = MatMul(g1, W)
    g3 = Sin(q)
    g = Add(g2, g3)
    r = SequenceInsert(t, g)
  }>
  y = ConcatFromSequence<axis = 0>(s)
}"""
OF_ALL_SIZES = """(int64 M, float[3] x) => (float[T] y) {
  s0 = SequenceEmpty()
  v, s = Loop(M, , x, s0)
      <body = b (int64 i, bool c, float[P] u, seq(float[N]) t)
        => (bool go, float[Q] n, seq(float[N]) r) {
    go = Identity(c)
    e = Sin(u)
    n = Concat<axis = 0>(e, u)
    r = SequenceInsert(t, n)
  }>
  y = ConcatFromSequence<axis = 0>(s)
}"""
BRANCHES = """(int64 M, float[2] x) => (float[T,2] y) {
  s0 = SequenceConstruct(x)
  s = Loop(M, , s0)
      <body = b (int64 i, bool c, seq(float[2]) t)
        => (bool go, seq(float[2]) r) {
    go = Identity(c)
    two = Constant<value_int = 2>()
    zero = Constant<value_int = 0>()
    m = Mod(i, two)
    even = Equal(m, zero)
    a = SequenceAt(t, i)
    e = Sin(a)
    u = SequenceInsert(t, e)
    r = If(even) <then_branch = p () => (seq(float[2]) p1) {
      p2 = Mul(e, e)
      p1 = SequenceInsert(u, p2)
    },
    else_branch = q () => (seq(float[2]) q1) { q1 = Identity(u) }>
  }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""
PLACES = """(int64 M, float[4] x, int64 k) => (float[4] y) {
  s0 = SequenceConstruct(k)
  y, ks = Loop(M, , x, s0)
      <body = b (int64 i, bool c, float[4] v, seq(int64) ix)
        => (bool go, float[4] w, seq(int64) iy) {
    go = Identity(c)
    s = Sin(v)
    at = SequenceAt(ix, i)
    g = Gather(s, at)
    w = Mul(s, g)
    one = Constant<value_int = 1>()
    three = Constant<value_int = 3>()
    n0 = Add(at, one)
    n1 = Mod(n0, three)
    iy = SequenceInsert(ix, n1)
  }>
}"""
ROWS = """(int64 M, float[3,2] x) => (float[T,2] y) {
  s0 = SequenceConstruct(x)
  v, s = Loop(M, , x, s0)
      <body = b (int64 i, bool c, float[A,2] u, seq(float[A,2]) t)
        => (bool go, float[B,2] n, seq(float[C,2]) r) {
    go = Identity(c)
    n = Sin(u)
    r = SequenceInsert(t, n)
  }>
  y = ConcatFromSequence<axis = 0>(s)
}"""
MADE_ANEW = """(int64 M, float[2] x) => (float[T,2] y) {
  s0 = SequenceConstruct(x, x)
  v, s = Loop(M, , x, s0)
      <body = b (int64 i, bool c, float[2] v, seq(float[2]) t)
        => (bool go, float[2] w, seq(float[2]) r) {
    go = Identity(c)
    w = Sin(v)
    r = SequenceConstruct(w, v)
  }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""
MAPPED = """(int64 M, float[2] x, float[2] a) => (float[T,2] y) {
  s0 = SequenceConstruct(x, a)
  s = Loop(M, , s0)
      <body = b (int64 i, bool c, seq(float[2]) t)
        => (bool go, seq(float[2]) r) {
    go = Identity(c)
    u = SequenceMap<body = m (float[2] e) => (float[2] f) { g = Mul(e, a) f = Sin(g) }>(t)
    r = SequenceInsert(u, x)
  }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""
STACK = """(int64 M, float[3,2] x) => (float[2] y, float[T,2] z) {
  s0 = SplitToSequence<axis = 0, keepdims = 0>(x)
  a0 = Constant<value = float[2] {1, 1}>()
  y, s = Loop(M, , a0, s0)
      <body = b (int64 i, bool c, float[2] v, seq(float[2]) t)
        => (bool go, float[2] w, seq(float[2]) r) {
    go = Identity(c)
    m = Constant<value = int64 {-1}>()
    e = SequenceAt(t, m)
    w0 = Mul(v, e)
    w = Sin(w0)
    r = SequenceErase(t)
  }>
  z = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""


MODELS = {
    "is read by all trips": (READ, ["x"], {}),
    "is read by trips inside": (READ_INSIDE, ["x"], {}),
    "grows and is read at two places": (HISTORY, ["x"], {}),
    "loses its first element": (QUEUE, ["x", "z"], {}),
    "is read as a whole": (CACHE, ["x", "W"], {}),
    "grows in a branch": (BRANCHES, ["x"], {}),
    "is of whole numbers": (PLACES, ["x"], {"k": 1}),
    "gets what has several rows": (ROWS, ["x"], {}),
    "is made anew": (MADE_ANEW, ["x"], {}),
    "is mapped": (MAPPED, ["x", "a"], {}),
    "loses its last element": (STACK, ["x"], {}),
}


@pytest.mark.parametrize("trips", [0, 1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_gradients(name: str, trips: int) -> None:
    text, wrt, inputs = MODELS[name]
    assert_gradient(text, ["y"], wrt, {**inputs, "M": trips})


# Three have no more elements by then, one comes down to 1e-87.
SHORT = (
    "is read by all trips",
    "is read by trips inside",
    "loses its last element",
    "is of whole numbers",
)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in SHORT])
def test_seven_trips(name: str) -> None:
    test_gradients(name, 7)


@pytest.mark.parametrize("name", MODELS)
def test_second_order(name: str) -> None:
    text, wrt, inputs = MODELS[name]
    assert_gradient(text, ["y"], wrt, {**inputs, "M": 2}, second_order=True)


@pytest.mark.parametrize("trips", [1, 3])
def test_elements_of_all_sizes(trips: int) -> None:
    assert_gradient(OF_ALL_SIZES, ["y"], ["x"], {"M": trips}, second_order=True)


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
def test_memory_strategies(memory: str) -> None:
    assert_gradient(BRANCHES, ["y"], ["x"], {"M": 5}, memory=memory)


def test_one_element_is_read_without_going_through_all() -> None:
    model = vjp(parse(QUEUE), ["y"], ["x"])
    loops = [each for each in walk(model.graph) if each.op_type == "Loop"]
    types = {each.op_type for loop in loops for each in walk(loop.attributes["body"].as_graph())}
    assert "SequenceMap" not in types


def test_many_trips() -> None:
    """x goes through M + 1 sines, whatever the sequence holds besides."""
    text = """(int64 M, double x) => (double y) {
      s0 = SequenceConstruct(x)
      zero = Constant<value_int = 0>()
      s = Loop(M, , s0)
        <body = b (int64 i, bool c, seq(double) t) => (bool go, seq(double) r) {
        go = Identity(c)
        one = Constant<value_int = 1>()
        n = SequenceLength(t)
        last = Sub(n, one)
        a = SequenceAt(t, last)
        e = Sin(a)
        r = SequenceInsert(t, e)
      }>
      y = SequenceAt(s, M)
    }"""
    got = compile(vjp(parse(text), ["y"], ["x"]))(M=4000, x=0.7, y_grad=1.0)
    value, slope = 0.7, 1.0
    for _ in range(4000):
        slope *= np.cos(value)
        value = np.sin(value)
    assert got["x_grad"] == pytest.approx(slope)
