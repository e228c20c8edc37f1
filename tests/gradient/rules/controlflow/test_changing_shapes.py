"""Gradients of loops that carry a value whose shape changes from trip to trip."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import UnsupportedError
from whileback.gradient import vjp
from whileback.graph.scopes import walk

GROWS = """(int64 M, float[N] x) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    s = Sin(v)
    w = Concat<axis = 0>(v, s)
  }>
}"""
APPENDED = """(int64 M, float[2] x, float[2] a) => (float[K] y) {
  u, y = Loop(M, , x, x)
      <body = b (int64 i, bool c, float[2] h, float[P] v)
        => (bool go, float[2] g, float[Q] w) {
    go = Identity(c)
    m = Mul(h, a)
    g = Sin(m)
    w = Concat<axis = 0>(v, g)
  }>
}"""
CUT = """(int64 M, float[N,2] x, float[2,2] W) => (float[K,2] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P,2] v) => (bool go, float[Q,2] w) {
    go = Identity(c)
    one = Constant<value = int64[1] {1}>()
    big = Constant<value = int64[1] {1000}>()
    z = Constant<value = int64[1] {0}>()
    t = Slice(v, one, big, z)
    m = MatMul(t, W)
    w = Tanh(m)
  }>
}"""
RANK = """(int64 M, float[2] x) => (float[2] y) {
  zero = Constant<value = float {0.5}>()
  y = Loop(M, , zero) <body = b (int64 i, bool c, float[] v) => (bool go, float[] w) {
    go = Identity(c)
    s = Sin(v)
    w = Add(s, x)
  }>
}"""
FILTERED = """(int64 M, float[9] x) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    h = Constant<value_float = -0.9>()
    s = Sin(v)
    m = Greater(s, h)
    t = Compress<axis = 0>(s, m)
    k = Constant<value_float = 1.7>()
    w = Mul(t, k)
  }>
}"""
TILED = """(int64 M, float[2] x) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    two = Constant<value = int64[1] {2}>()
    s = Sin(v)
    w = Tile(s, two)
  }>
}"""
GATHERED = """(int64 M, float[5] x, int64[8] idx) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    s = Sin(v)
    n = Shape(v)
    one = Constant<value = int64[1] {1}>()
    z = Constant<value = int64[1] {0}>()
    m = Sub(n, one)
    r0 = Slice(idx, z, m, z)
    r = Mod(r0, n)
    w = Gather(s, r)
  }>
}"""
NESTED = """(int64 M, float[2] x) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    s = Sin(v)
    w = Loop(i, , s) <body = d (int64 j, bool e, float[R] p) => (bool on, float[S] q) {
      on = Identity(e)
      t = Mul(p, p)
      q = Concat<axis = 0>(t, p)
    }>
  }>
}"""
BRANCHES = """(int64 M, float[2] x) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    two = Constant<value_int = 2>()
    zero = Constant<value_int = 0>()
    r = Mod(i, two)
    even = Equal(r, zero)
    w = If(even) <then_branch = t () => (float[A] a) { s = Sin(v) a = Concat<axis = 0>(s, v) },
                  else_branch = f () => (float[B] d) { d = Mul(v, v) }>
  }>
}"""
EXITS = """(int64 M, float[2] x) => (float[K] y) {
  yes = Constant<value = bool {1}>()
  y = Loop(M, yes, x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    s = Sin(v)
    w = Concat<axis = 0>(s, v)
    n = Size(w)
    ten = Constant<value_int = 10>()
    go = Less(n, ten)
  }>
}"""
INDICES = """(int64 M, float[4] x, int64[1] k) => (float[4] y, int64[K] ks) {
  y, ks = Loop(M, , x, k)
      <body = b (int64 i, bool c, float[4] v, int64[A] ix)
        => (bool go, float[4] w, int64[B] iy) {
    go = Identity(c)
    s = Sin(v)
    g = Gather(s, ix)
    t = ReduceSum<keepdims = 0>(g)
    w = Mul(s, t)
    one = Constant<value = int64[1] {1}>()
    last = Add(k, one)
    iy = Concat<axis = 0>(ix, last)
  }>
}"""
HALVED = """(int64 M, float[6] x) => (float[K] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
    go = Identity(c)
    two = Constant<value = int64 {2}>()
    s = SplitToSequence<axis = 0>(v, two)
    z = Constant<value = int64 {0}>()
    e = SequenceErase(s, z)
    f = ConcatFromSequence<axis = 0>(e)
    w = Sin(f)
  }>
}"""
TWO = """(int64 M, float[2] x, float[2,2] W) => (float[K,2] y, float[L] z)
    <int64[1] zero = {0}> {
  x0 = Unsqueeze(x, zero)
  y, z = Loop(M, , x0, x)
      <body = b (int64 i, bool c, float[P,2] v, float[R] q)
        => (bool go, float[Q,2] w, float[S] r) {
    go = Identity(c)
    h = MatMul(v, W)
    t = Tanh(h)
    m = ReduceMean<keepdims = 1>(t, zero)
    w = Concat<axis = 0>(t, m)
    f = ReduceSum<keepdims = 0>(m)
    q1 = Mul(q, f)
    two = Constant<value = int64[1] {2}>()
    r = Tile(q1, two)
  }>
}"""


X = [0.3, 0.5]
NINE = np.linspace(-1.3, 1.3, 9, dtype=np.float32)
ROWS = np.random.default_rng(4).normal(size=(9, 2)).astype(np.float32)
INDICES_READ = [2, 0, 1, 3, 1, 0, 2, 1]
MODELS = {
    "grows and is read": (GROWS, ["x"], {"x": X}),
    "only grows": (APPENDED, ["x", "a"], {}),
    "loses rows": (CUT, ["x", "W"], {"x": ROWS}),
    "loses what a condition says": (FILTERED, ["x"], {"x": NINE}),
    "doubles": (TILED, ["x"], {"x": X}),
    "is picked": (GATHERED, ["x"], {"idx": INDICES_READ}),
    "grows in a loop inside": (NESTED, ["x"], {"x": X}),
    "grows in one branch": (BRANCHES, ["x"], {"x": X}),
    "grows until it is large": (EXITS, ["x"], {"x": X}),
    "is of whole numbers": (INDICES, ["x"], {"k": [1]}),
    "is one of two": (TWO, ["x", "W"], {}),
}


@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_gradients(name: str, trips: int) -> None:
    text, wrt, inputs = MODELS[name]
    assert_gradient(text, ["y"], wrt, {**inputs, "M": trips})


# One has no more to lose by then, one grows to thousands of elements, one comes down to 1e-60.
SHORT = ("is picked", "grows in a loop inside", "is of whole numbers")


@pytest.mark.parametrize("name", [name for name in MODELS if name not in SHORT])
def test_seven_trips(name: str) -> None:
    test_gradients(name, 7)


@pytest.mark.parametrize("name", MODELS)
def test_second_order(name: str) -> None:
    text, wrt, inputs = MODELS[name]
    assert_gradient(text, ["y"], wrt, {**inputs, "M": 2}, second_order=True)


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
@pytest.mark.parametrize("name", ["loses what a condition says", "grows in one branch"])
def test_memory_strategies(name: str, memory: str) -> None:
    text, wrt, inputs = MODELS[name]
    assert_gradient(text, ["y"], wrt, {**inputs, "M": 5}, memory=memory)


@pytest.mark.parametrize("trips", [1, 3])
def test_a_rank_that_grows(trips: int) -> None:
    assert_gradient(RANK, ["y"], ["x"], {"M": trips}, second_order=True)


@pytest.mark.parametrize("trips", [7, 4000])
def test_many_trips_that_append(trips: int) -> None:
    """y = (x, x·a, x·a², …)."""
    text = """(int64 M, double[1] x, double a) => (double[K] y) {
      v, y = Loop(M, , x, x)
        <body = b (int64 i, bool c, double[1] v, double[P] p)
          => (bool go, double[1] w, double[Q] q) {
        go = Identity(c)
        w = Mul(v, a)
        q = Concat<axis = 0>(p, w)
      }>
    }"""
    model = compile(vjp(parse(text), ["y"], ["x", "a"]))
    got = model(M=trips, x=[1.0], a=1.0005, y_grad=np.ones(trips + 1))
    powers = np.arange(trips + 1)
    assert got["x_grad"] == pytest.approx(np.sum(1.0005**powers))
    assert got["a_grad"] == pytest.approx(np.sum(powers * 1.0005 ** (powers - 1.0)))


@pytest.mark.parametrize("trips", [7, 4000])
def test_many_trips_that_cut_off(trips: int) -> None:
    """Of as many elements as trips, and one more, x·aᵀ is left."""
    text = """(int64 M, double[N] x, double a) => (double[K] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, double[P] v) => (bool go, double[Q] w) {
        go = Identity(c)
        one = Constant<value = int64[1] {1}>()
        end = Constant<value = int64[1] {9999999}>()
        rest = Slice(v, one, end)
        w = Mul(rest, a)
      }>
    }"""
    model = compile(vjp(parse(text), ["y"], ["x", "a"]))
    got = model(M=trips, x=np.ones(trips + 1), a=1.0005, y_grad=[3.0])
    assert got["x_grad"][-1] == pytest.approx(3 * 1.0005**trips)
    assert not got["x_grad"][:-1].any()
    assert got["a_grad"] == pytest.approx(3 * trips * 1.0005 ** (trips - 1))


def test_of_a_value_that_only_its_shape_is_read_of_the_shape_is_kept() -> None:
    text = APPENDED.replace("Concat<axis = 0>(v, g)", "Concat<axis = 0>(v, g, v)")
    (forward, *_) = [each for each in walk(vjp(parse(text), ["y"], ["x"]).graph) if each.outputs]
    shapes = [value.shape for value in forward.outputs[2:]]
    assert all(shape is not None and len(shape) == 2 for shape in shapes)
    assert "Pad" not in {each.op_type for each in forward.attributes["body"].as_graph()}
    assert_gradient(text, ["y"], ["x", "a"], {"M": 3})


@pytest.mark.parametrize("trips", [0, 1, 2])
def test_a_part_that_went_through_a_sequence(trips: int) -> None:
    assert_gradient(HALVED, ["y"], ["x"], {"M": trips}, second_order=True)


def test_a_run_ahead_that_would_draw_is_refused_by_name() -> None:
    text = """(int64 M, float[2] x) => (float[K] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[P] v) => (bool go, float[Q] w) {
        go = Identity(c)
        r = RandomNormal<shape = [1]>()
        s = Mul(v, v)
        w = Concat<axis = 0>(s, r)
      }>
    }"""
    with pytest.raises(UnsupportedError) as caught:
        vjp(parse(text), ["y"], ["x"])
    assert str(caught.value) == (
        "Value 'v' (FLOAT[_d3]) in the body of 'Loop' (Loop) changes its shape from trip to trip, "
        "and the gradient needs it from every trip. How large it gets is found by running the loop "
        "ahead, which cannot be done for a Scan, nor where that takes random numbers. Draw before "
        "the loop, or give the value a fixed shape."
    )


def test_a_scan_keeps_the_shape_of_what_it_carries_and_stacks() -> None:
    """Nothing but that operator's own rule tells so here: the sizes are known when it runs."""
    text = """(double[N] s, double[T] x, int64[1] size) => (double[M] e, double[T,K] y) {
      e, y = Scan<num_scan_inputs = 1, body = b (double[P] v, double r)
                                             => (double[Q] w, double[R] z) {
        u = Mul(v, v)
        t = Mul(u, r)
        w = Reshape(t, size)
        z = Reshape(u, size)
      }>(s, x)
    }"""
    inputs = {"size": [2], "s": X[:2], "x": [0.5, 1.5, -1.25]}
    assert_gradient(text, ["e", "y"], ["s", "x"], inputs, second_order=True)


def test_a_run_ahead_leaves_out_what_it_need_not_draw() -> None:
    text = """(int64 M, float[2] x) => (float[K] y, float z) {
      zero = Constant<value = float {0}>()
      y, z = Loop(M, , x, zero)
        <body = b (int64 i, bool c, float[P] v, float t) => (bool go, float[Q] w, float u) {
        go = Identity(c)
        s = Sin(v)
        w = Concat<axis = 0>(s, v)
        r = RandomNormal<seed = 1.0, shape = [1]>()
        n = Mul(r, r)
        m = ReduceSum<keepdims = 0>(n)
        u = Add(t, m)
      }>
    }"""
    assert_gradient(text, ["y"], ["x"], {"M": 3, "x": X})
