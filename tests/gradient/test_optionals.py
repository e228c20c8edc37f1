"""Gradients through optionals, in branches and loops; a loop makes 0, 1 or 7 trips."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.judge_forward import assert_tangents

from whileback.engines import compile
from whileback.errors import EngineError
from whileback.gradient import vjp
from whileback.gradient.memory.strategies import Memory

A = np.array([[0.5, -1.25], [2.0, 0.75], [1.5, -0.25]], np.float32)
X = A[0]


@pytest.mark.parametrize("condition", [True, False])
def test_an_optional_tensor_of_one_branch(condition: bool) -> None:
    text = """(float[3,2] x, bool c) => (float[2] y) {
      o = If(c) <
        then_branch = t1 () => (optional(float[3,2]) r) { q = Mul(x, x) r = Optional(q) },
        else_branch = t2 () => (optional(float[3,2]) v) { v = Optional<type = float[3,2]>() }>
      h = OptionalHasElement(o)
      i = Constant<value_int = 0>()
      y = If(h) <
        then_branch = t3 () => (float[2] a) { g = OptionalGetElement(o) k = Mul(g, g)
                                              a = Gather(k, i) },
        else_branch = t4 () => (float[2] b) { b = Gather(x, i) }>
    }"""
    inputs = {"x": A, "c": np.array(condition)}
    assert_gradient(text, ["y"], ["x"], inputs, second_order=True)


@pytest.mark.parametrize("condition", [True, False])
def test_an_optional_sequence_read_twice(condition: bool) -> None:
    text = """(float[3,2] x, float[2] z, bool c) => (float[2] y) {
      s = SplitToSequence<axis = 0, keepdims = 0>(x)
      o = If(c) <
        then_branch = t1 () => (optional(seq(float[2])) r) { r = Optional(s) },
        else_branch = t2 () => (optional(seq(float[2])) v) {
          v = Optional<type = seq(float[2])>() }>
      h = OptionalHasElement(o)
      i = Constant<value_int = 1>()
      p = If(h) <
        then_branch = t3 () => (float[2] a) { g = OptionalGetElement(o) a = SequenceAt(g, i) },
        else_branch = t4 () => (float[2] b) { b = Identity(z) }>
      q = If(h) <
        then_branch = t5 () => (float[2] d) { k = OptionalGetElement(o) e = SequenceAt(k, i)
                                              d = Mul(e, e) },
        else_branch = t6 () => (float[2] f) { f = Mul(z, z) }>
      y = Mul(p, q)
    }"""
    inputs = {"x": A, "c": np.array(condition)}
    assert_gradient(text, ["y"], ["x", "z"], inputs, second_order=True)


def test_tensors_and_sequences_count_as_optionals_with_content() -> None:
    text = """(float[3,2] x) => (float[2] y) {
      a = OptionalGetElement(x)
      h = OptionalHasElement(a)
      f = CastLike(h, a)
      b = Mul(a, f)
      s = SplitToSequence<axis = 0, keepdims = 0>(b)
      t = OptionalGetElement(s)
      i = Constant<value_int = 1>()
      r = SequenceAt(t, i)
      y = Mul(r, r)
    }"""
    assert_gradient(text, ["y"], ["x"], {"x": A}, second_order=True)


ALWAYS = """(int64 M, float[2] x) => (float[2] y) {
  start = Optional(x)
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(float[2]) t) => (bool go, optional(float[2]) u) {
    go = Identity(c)
    v = OptionalGetElement(t)
    w = Mul(v, x)
    s = Sin(w)
    u = Optional(s)
  }>
  y = OptionalGetElement(last)
}"""
ALWAYS_A_SEQUENCE = """(int64 M, float[2] x) => (float[N] y) {
  s = SequenceConstruct(x)
  start = Optional(s)
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(seq(float[2])) t) => (bool go, seq(float[2]) u) {
    go = Identity(c)
    v = OptionalGetElement(t)
    a = SequenceAt(v, i)
    w = Mul(a, x)
    u = SequenceInsert(v, w)
  }>
  y = ConcatFromSequence<axis = 0>(last)
}"""
FROM_THE_FIRST_TRIP = """(int64 M, float[2] x, float[2] z) => (float[2] y) {
  start = Optional<type = float[2]>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(float[2]) t) => (bool go, optional(float[2]) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    none = Not(full)
    v = If(none) <
      then_branch = p () => (float[2] p1) { p1 = Sin(x) },
      else_branch = q () => (float[2] q1) { q1 = OptionalGetElement(t) }>
    w = Mul(v, z)
    u = Optional(w)
  }>
  any = OptionalHasElement(last)
  y = If(any) <
    then_branch = f () => (float[2] f1) { f1 = OptionalGetElement(last) },
    else_branch = g () => (float[2] g1) { g1 = Mul(x, x) }>
}"""
A_SEQUENCE_FROM_THE_FIRST_TRIP = """(int64 M, float[2] x, float[2] z) => (float[N,2] y) {
  start = Optional<type = seq(float[2])>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(seq(float[2])) t) => (bool go, seq(float[2]) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    v = If(full) <
      then_branch = p () => (seq(float[2]) p1) { p1 = OptionalGetElement(t) },
      else_branch = q () => (seq(float[2]) q1) { q1 = SequenceConstruct(x, z) }>
    a = SequenceAt(v, i)
    w = Mul(a, z)
    u = SequenceInsert(v, w)
  }>
  any = OptionalHasElement(last)
  y = If(any) <
    then_branch = f () => (float[K,2] f1) {
      s = OptionalGetElement(last)
      f1 = ConcatFromSequence<axis = 0, new_axis = 1>(s) },
    else_branch = g () => (float[1,2] g1) {
      g0 = Constant<value_ints = [0]>()
      g2 = Unsqueeze(x, g0)
      g1 = Mul(g2, g2) }>
}"""
IN_SOME_TRIPS = """(int64 M, float[2] x) => (float[2] y) {
  start = Optional<type = float[2]>()
  y, last = Loop(M, , x, start)
    <body = b (int64 i, bool c, float[2] v, optional(float[2]) t)
      => (bool go, float[2] w, optional(float[2]) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    w, u = If(full) <
      then_branch = p () => (float[2] w1, optional(float[2]) u1) {
        a = OptionalGetElement(t)
        w1 = Mul(a, v)
        u1 = Optional<type = float[2]>() },
      else_branch = q () => (float[2] w2, optional(float[2]) u2) {
        w2 = Sin(v)
        e = Add(v, x)
        u2 = Optional(e) }>
  }>
}"""
A_SEQUENCE_IN_SOME_TRIPS = """(int64 M, float[2] x) => (float[2] y) {
  start = Optional<type = seq(float[2])>()
  y, last = Loop(M, , x, start)
    <body = b (int64 i, bool c, float[2] v, optional(seq(float[2])) t)
      => (bool go, float[2] w, optional(seq(float[2])) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    w, u = If(full) <
      then_branch = p () => (float[2] w1, optional(seq(float[2])) u1) {
        s = OptionalGetElement(t)
        k = Constant<value_int = -1>()
        a = SequenceAt(s, k)
        w1 = Mul(a, v)
        u1 = Optional<type = seq(float[2])>() },
      else_branch = q () => (float[2] w2, optional(seq(float[2])) u2) {
        w2 = Sin(v)
        e = Add(v, x)
        d = SequenceConstruct(x, e)
        u2 = Optional(d) }>
  }>
}"""
READ_UNASKED = """(int64 M, float[2] x) => (float[2] y) {
  start = Optional(x)
  none = Optional<type = float[2]>()
  y, last, other = Loop(M, , x, start, none)
    <body = b (int64 i, bool c, float[2] v, optional(float[2]) t, optional(float[2]) k)
      => (bool go, float[2] w, optional(float[2]) u, optional(float[2]) l) {
    go = Identity(c)
    a = OptionalGetElement(t)
    w = Mul(v, a)
    l = Identity(k)
    odd = OptionalHasElement(k)
    u = If(odd) <
      then_branch = p () => (optional(float[2]) u1) { u1 = Identity(k) },
      else_branch = q () => (optional(float[2]) u2) { s = Sin(a) u2 = Optional(s) }>
  }>
}"""
NESTED = """(int64 M, float[2] x) => (float[2] y) {
  start = Optional<type = float[2]>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(float[2]) t) => (bool go, optional(float[2]) u) {
    go = Identity(c)
    u = Loop(i, , t)
      <body = d (int64 j, bool e, optional(float[2]) p) => (bool on, optional(float[2]) r) {
      on = Identity(e)
      full = OptionalHasElement(p)
      v = If(full) <
        then_branch = f () => (float[2] f1) { a = OptionalGetElement(p) f1 = Mul(a, x) },
        else_branch = g () => (float[2] g1) { g1 = Sin(x) }>
      r = Optional(v)
    }>
  }>
  any = OptionalHasElement(last)
  y = If(any) <
    then_branch = h () => (float[2] h1) { h1 = OptionalGetElement(last) },
    else_branch = k () => (float[2] k1) { k1 = Mul(x, x) }>
}"""
CAPTURED = """(int64 M, float[2] x) => (float[2] y) {
  none = Optional<type = float[2]>()
  full = Optional(x)
  zero = Constant<value_int = 0>()
  some = Greater(M, zero)
  o = If(some) <
    then_branch = p () => (optional(float[2]) p1) { p1 = Identity(full) },
    else_branch = q () => (optional(float[2]) q1) { q1 = Identity(none) }>
  y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
    go = Identity(c)
    a = OptionalGetElement(o)
    m = Mul(v, a)
    w = Sin(m)
  }>
}"""
GROWING = """(int64 M, float[2] x) => (float[N] y) {
  start = Optional<type = float[N]>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(float[K]) t) => (bool go, optional(float[L]) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    v = If(full) <
      then_branch = p () => (float[P] p1) { p1 = OptionalGetElement(t) },
      else_branch = q () => (float[Q] q1) { q1 = Identity(x) }>
    s = Sin(v)
    w = Concat<axis = 0>(s, x)
    u = Optional(w)
  }>
  any = OptionalHasElement(last)
  y = If(any) <
    then_branch = f () => (float[R] f1) { f0 = OptionalGetElement(last) f1 = Mul(f0, f0) },
    else_branch = g () => (float[S] g1) { g1 = Mul(x, x) }>
}"""
OF_ANY_RANK = """(int64 M, float[2] x) => (float y) {
  start = Optional<type = float[]>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(float[]) t) => (bool go, optional(float[]) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    v = If(full) <
      then_branch = p () => (float[] p1) { p1 = OptionalGetElement(t) },
      else_branch = q () => (float[] q1) { q1 = Identity(x) }>
    s = Sin(v)
    w = Mul(s, x)
    u = Optional(w)
  }>
  any = OptionalHasElement(last)
  f = If(any) <
    then_branch = f () => (float[] f1) { f1 = OptionalGetElement(last) },
    else_branch = g () => (float[] g1) { g1 = Mul(x, x) }>
  y = ReduceSum<keepdims = 0>(f)
}"""
A_POSITION = """(int64 M, float[2,2] x, float[2] z) => (float[2] y) {
  start = Optional<type = int64>()
  y, last = Loop(M, , z, start)
    <body = b (int64 i, bool c, float[2] v, optional(int64) t)
      => (bool go, float[2] w, optional(int64) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    w, k = If(full) <
      then_branch = p () => (float[2] w1, int64 k1) {
        a = OptionalGetElement(t)
        r = Gather(x, a)
        w1 = Mul(v, r)
        one = Constant<value_int = 1>()
        k1 = Sub(one, a) },
      else_branch = q () => (float[2] w2, int64 k2) {
        w2 = Sin(v)
        k2 = Constant<value_int = 0>() }>
    u = Optional(k)
  }>
}"""
UNTIL_FILLED = """(int64 M, float[2] x) => (float[2] y) {
  start = Optional<type = float[2]>()
  v, last = Loop(M, , x, start)
    <body = b (int64 i, bool c, float[2] v, optional(float[2]) t)
      => (bool go, float[2] w, optional(float[2]) u) {
    w = Mul(v, x)
    three = Constant<value_int = 3>()
    late = Equal(i, three)
    u = If(late) <
      then_branch = p () => (optional(float[2]) u1) { s = Sin(w) u1 = Optional(s) },
      else_branch = q () => (optional(float[2]) u2) { u2 = Optional<type = float[2]>() }>
    full = OptionalHasElement(u)
    go = Not(full)
  }>
  any = OptionalHasElement(last)
  y = If(any) <
    then_branch = f () => (float[2] f1) { f0 = OptionalGetElement(last) f1 = Mul(f0, v) },
    else_branch = g () => (float[2] g1) { g1 = Mul(v, v) }>
}"""
ELEMENTS_DECLARED_SCALARS = """(int64 M, float[3] x) => (float[N] y) {
  start = Optional<type = seq(float)>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(seq(float)) t) => (bool go, seq(float) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    v = If(full) <
      then_branch = p () => (seq(float) p1) { p1 = OptionalGetElement(t) },
      else_branch = q () => (seq(float) q1) {
        k = Constant<value_float = 2.0>()
        q1 = SequenceConstruct(k) }>
    a = SequenceAt(v, i)
    w = Mul(a, x)
    u = SequenceInsert(v, w)
  }>
  any = OptionalHasElement(last)
  y = If(any) <
    then_branch = f () => (float[3] f1) {
      s = OptionalGetElement(last)
      m = Constant<value_int = -1>()
      f0 = SequenceAt(s, m)
      f1 = Sin(f0) },
    else_branch = g () => (float[3] g1) { g1 = Mul(x, x) }>
}"""
READ_BESIDE = """(int64 M, float[2] x, float[2] k) => (float[2] y) {
  start = Optional(k)
  y, last = Loop(M, , x, start)
    <body = b (int64 i, bool c, float[2] v, optional(float[2]) t)
      => (bool go, float[2] w, optional(float[2]) u) {
    go = Identity(c)
    full = OptionalHasElement(t)
    w = If(full) <
      then_branch = p () => (float[2] p1) { a = OptionalGetElement(t) p1 = Mul(v, a) },
      else_branch = q () => (float[2] q1) { q1 = Sin(v) }>
    u = Optional(k)
  }>
}"""
MODELS = {name: text for name, text in globals().items() if isinstance(text, str) and "=>" in text}


def arguments(text: str, trips: int) -> dict[str, np.ndarray]:
    shapes = {value.name: value.shape.numpy() for value in parse(text).graph.inputs}
    rng = np.random.default_rng(1)
    given = {name: rng.uniform(0.5, 1.5, shape) for name, shape in shapes.items()}
    given = {name: array.astype(np.float32) for name, array in given.items()}
    return given | {"M": np.array(trips)}


@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.parametrize("name", MODELS)
def test_optionals_that_loops_carry_or_read(name: str, trips: int) -> None:
    inputs = arguments(MODELS[name], trips)
    wrt = [key for key in inputs if key != "M"]
    assert_gradient(MODELS[name], ["y"], wrt, inputs, second_order=True)


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"OF_ANY_RANK"}))
def test_memory_strategies(name: str, memory: Memory) -> None:
    inputs = arguments(MODELS[name], 7)
    wrt = [key for key in inputs if key != "M"]
    assert_gradient(MODELS[name], ["y"], wrt, inputs, memory=memory)


@pytest.mark.parametrize("trips", [0, 7])
@pytest.mark.parametrize("name", MODELS)
def test_tangents(name: str, trips: int) -> None:
    inputs = arguments(MODELS[name], trips)
    assert_tangents(MODELS[name], ["y"], ["x"], inputs)


def test_what_is_not_there_is_missed_as_before() -> None:
    text = """(int64 M, float[2] x) => (float[2] y) {
      start = Optional<type = float[2]>()
      last = Loop(M, , start)
        <body = b (int64 i, bool c, optional(float[2]) t) => (bool go, optional(float[2]) u) {
        go = Identity(c)
        s = Sin(x)
        u = Optional(s)
      }>
      y = OptionalGetElement(last)
    }"""
    for model in (parse(text), vjp(parse(text), "y", "x")):
        run = compile(model)
        seeds = {name: X for name in run.inputs if name == "y_grad"}
        assert run(M=1, x=X, **seeds)["y"] == pytest.approx(np.sin(X))
        with pytest.raises(EngineError, match="an optional type OrtValue which contains no data"):
            run(M=0, x=X, **seeds)


@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.parametrize(
    ("start", "carried", "returned"),
    [
        ("Optional(x)", "optional(float[2])", "float[2]"),
        ("Identity(x)", "optional(float[2])", "float[2]"),
        ("Optional(x)", "float[2]", "float[2]"),
    ],
)
def test_loops_that_are_only_partly_of_optionals(
    start: str, carried: str, returned: str, trips: int
) -> None:
    """ONNX Runtime 1.32 refuses these models, but not the gradients, which hold no optionals."""
    text = f"""(int64 M, float[2] x) => (float[2] y) {{
      start = {start}
      last = Loop(M, , start)
        <body = b (int64 i, bool c, {carried} t) => (bool go, {returned} u) {{
        go = Identity(c)
        v = OptionalGetElement(t)
        w = Mul(v, x)
        u = Sin(w)
      }}>
      y = OptionalGetElement(last)
    }}"""
    with pytest.raises(EngineError, match="TypeInferenceError"):
        compile(parse(text))
    inputs = {"M": np.array(trips), "x": X, "y_grad": np.float32([1, 2])}
    expected, got = (compile(vjp(parse(each), "y", "x"))(inputs) for each in (ALWAYS, text))
    assert all(np.array_equal(expected[name], got[name]) for name in ("y", "x_grad"))
