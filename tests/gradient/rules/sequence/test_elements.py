import numpy as np
import pytest
from tests.gradient.rules.tensor import squares
from tests.judge import Arrays, assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp

A = np.array([[0.5, -1.25], [2.0, 0.75], [1.5, -0.25]], np.float32)
B = np.array([0.75, -2.0], np.float32)

# Three rows of the squares of `a`, as a sequence `s`.
ROWS = "h = Mul(a, a) s = SplitToSequence<axis = 0, keepdims = 0>(h)"
# Of every element of a sequence its own multiple, so that all cotangents differ.
PROBE = """
  stack = ConcatFromSequence<axis = 0, new_axis = 1>(r)
  y = Mul(stack, stack)
"""


def judge(
    body: str,
    *,
    arguments: str = "",
    kind: str = "float[3,2]",
    wrt: tuple[str, ...] = ("a", "b"),
    **inputs: object,
) -> Arrays:
    """Judge a body that makes `y` of a sequence `s` and a tensor `b`."""
    signature = ", ".join(filter(None, [f"{kind} a", "float[2] b", arguments]))
    text = f"({signature}) => (float[M,N] y) {{ {ROWS} {body} }}"
    values = {"a": A, "b": B} | {n: np.asarray(v) for n, v in inputs.items()}
    return assert_gradient(text, ["y"], list(wrt), values, second_order=True)


def constant(position: int | None) -> tuple[str, str]:
    """Return a node that makes the position `p`, and how it is passed: not at all for None."""
    if position is None:
        return "", ""
    return f"p = Constant<value_int = {position}>()", ", p"


@pytest.mark.parametrize("kind", ["float[3,2]", "float[R,C]"])
@pytest.mark.parametrize("position", [0, 1, 2, -1, -2, -3])
def test_one_element(position: int, kind: str) -> None:
    made, _ = constant(position)
    two = "t = SequenceAt(s, p) r = SequenceConstruct(t, b, t)"
    judge(f"{made} {two} {PROBE}", kind=kind)
    for type_ in ("int64", "int32"):
        value = np.array(position, type_)
        judge(f"{two} {PROBE}", kind=kind, arguments=f"{type_} p", p=value)


@pytest.mark.parametrize("position", [None, 0, 2, 3, -1, -2, -3])
def test_insert(position: int | None) -> None:
    made, passed = constant(position)
    judge(f"{made} r = SequenceInsert(s, b{passed}) {PROBE}")
    if position is not None:
        value = np.array(position)
        judge(f"r = SequenceInsert(s, b, p) {PROBE}", arguments="int64 p", p=value)


@pytest.mark.parametrize("position", [None, 0, 1, 2, -1, -2, -3])
def test_erase(position: int | None) -> None:
    made, passed = constant(position)
    judge(f"{made} r = SequenceErase(s{passed}) {PROBE}", wrt=("a",))
    if position is not None:
        value = np.array(position, np.int32)
        judge(f"r = SequenceErase(s, p) {PROBE}", arguments="int32 p", wrt=("a",), p=value)


def test_elements_of_different_shapes() -> None:
    text = """(float[2] a, float[3] b, float[M,N] c, int64 p) => (float[K] y, float[M,N] z) {
      d = Mul(a, a) e = Mul(b, b) f = Mul(c, c)
      s = SequenceConstruct(d, e, f, d)
      i = Constant<value_int = 2>()
      z = SequenceAt(s, i)
      u = SequenceErase(s, i)
      v = SequenceInsert(u, e, p)
      w = SequenceErase(v)
      y = ConcatFromSequence<axis = -1>(w)
    }"""
    inputs = {"a": A[0], "b": np.arange(3, dtype=np.float32), "c": A, "p": np.array(-2)}
    assert_gradient(text, ["y", "z"], ["a", "b", "c"], inputs, second_order=True)


def test_a_sequence_that_grows_from_nothing() -> None:
    text = """(float[2] a, float[2] b) => (float[M,N] y) {
      e = SequenceEmpty()
      f = SequenceInsert(e, a)
      g = SequenceInsert(f, b)
      h = SequenceErase(g)
      i = SequenceErase(h)
      j = SequenceInsert(i, b)
      c = Mul(a, b)
      zero = Constant<value_int = 0>()
      r = SequenceInsert(j, c, zero)
      stack = ConcatFromSequence<axis = 0, new_axis = 1>(r)
      y = Mul(stack, stack)
    }"""
    assert_gradient(text, ["y"], ["a", "b"], {"a": A[0], "b": B}, second_order=True)


def test_the_length_passes_nothing_on() -> None:
    body = "n = SequenceLength(s) m = CastLike(n, a) k = Mul(m, h) r = SequenceConstruct(k)"
    text = f"(float[3,2] a) => (float[1,3,2] y) {{ {ROWS} {body} {PROBE} }}"
    assert_gradient(text, ["y"], ["a"], {"a": A}, second_order=True)


@pytest.mark.parametrize("kind", ["float[3,2]", "float[R,C]"])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_join(axis: int, kind: str) -> None:
    text = f"""({kind} a, float[3,2] b) => (float[M,N] y) {{
      h = Mul(a, a) k = Mul(b, a)
      s = SequenceConstruct(h, k, h)
      y = ConcatFromSequence<axis = {axis}>(s)
    }}"""
    assert_gradient(text, ["y"], ["a", "b"], {"a": A, "b": 2 * A}, second_order=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_stack(axis: int) -> None:
    text = f"""(float[3,2] a, float[3,2] b) => (float[K,M,N] y) {{
      h = Mul(a, a) k = Mul(b, a)
      s = SequenceConstruct(h, k, h)
      y = ConcatFromSequence<axis = {axis}, new_axis = 1>(s)
    }}"""
    assert_gradient(text, ["y"], ["a", "b"], {"a": A, "b": 2 * A}, second_order=True)


def test_joining_parts_of_different_sizes() -> None:
    text = """(float[3,2] a, float[M,2] b, float[N,2] c) => (float[K,2] y) {
      h = Mul(a, a)
      s = SequenceConstruct(h, b, c, h)
      y = ConcatFromSequence<axis = 0>(s)
    }"""
    inputs = {"a": A, "b": A[:0], "c": A[:1]}
    assert_gradient(text, ["y"], ["a", "b", "c"], inputs, second_order=True)


SPLITS = [
    ("keepdims = 1", "", {}),
    ("keepdims = 0", "", {}),
    ("keepdims = 1", "int64 split", {"split": np.array(2)}),
    ("keepdims = 0", "int64 split", {"split": np.array(1)}),
    ("keepdims = 1", "int64[K] split", {"split": np.array([1, 2, 0])}),
    ("keepdims = 0", "int32[K] split", {"split": np.array([3], np.int32)}),
]


@pytest.mark.parametrize("kind", ["float[3,3]", "float[R,C]", "float[]"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("attributes, argument, inputs", SPLITS)
def test_split(
    attributes: str, argument: str, inputs: dict[str, np.ndarray], axis: int, kind: str
) -> None:
    stacked = int("keepdims = 0" in attributes and "[K]" not in argument)
    body = f"""
      s = SplitToSequence<axis = {axis}, {attributes}>(h{", split" if argument else ""})
      i = Constant<value_int = 0>()
      t = SequenceAt(s, i)
      u = SequenceInsert(s, t)
      y = ConcatFromSequence<axis = {axis}, new_axis = {stacked}>(u)
    """
    x = np.array([[0.5, -1.25, 1.0], [2.0, 0.75, 0.25], [1.5, -0.25, 3.0]], np.float32)
    squares.judge(body, kind, argument, x=x, **inputs)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_split_of_nothing(shape: tuple[int, int], keepdims: int) -> None:
    text = f"""(float[R,C] a, float[N,2] b) => (float[M,2] y) {{
      s = SplitToSequence<axis = 0, keepdims = {keepdims}>(a)
      t = SplitToSequence<axis = 0, keepdims = {keepdims}>(b)
      n = SequenceLength(s)
      zero = Constant<value_int = 0>()
      some = Greater(n, zero)
      y = If(some) <
        then_branch = t1 () => (float[M,2] c) {{
          d = ConcatFromSequence<axis = 0, new_axis = {1 - keepdims}>(s)
          e = ReduceSum(d) c = Mul(e, b)
        }},
        else_branch = t2 () => (float[M,2] f) {{
          f = ConcatFromSequence<axis = 0, new_axis = {1 - keepdims}>(t)
        }}>
    }}"""
    results = compile(vjp(parse(text), "y", ["a", "b"]))(
        a=np.zeros(shape, np.float32), b=A, y_grad=np.ones_like(A)
    )
    assert results["a_grad"].shape == shape
    np.testing.assert_array_equal(results["b_grad"], 0 * A + (shape[0] == 0))


def test_sequences_of_both_branches() -> None:
    text = f"""(float[3,2] a, float[2] b, bool c) => (float[M,2] y) {{
      {ROWS}
      i = Constant<value_int = 1>()
      r = If(c) <
        then_branch = t1 () => (seq(float[2]) u) {{
          t = SequenceAt(s, i) v = Mul(t, b) u = SequenceInsert(s, v, i)
        }},
        else_branch = t2 () => (seq(float[2]) w) {{
          k = SequenceErase(s, i) w = SequenceErase(k)
        }}>
      {PROBE}
    }}"""
    for condition in (True, False):
        inputs = {"a": A, "b": B, "c": np.array(condition)}
        assert_gradient(text, ["y"], ["a", "b"], inputs, second_order=True)


def test_a_sequence_that_only_one_branch_reads() -> None:
    text = f"""(float[3,2] a, float[2] b, bool c) => (float[2] y) {{
      {ROWS}
      y = If(c) <
        then_branch = t1 () => (float[2] u) {{
          i = Constant<value_int = -1>() t = SequenceAt(s, i) u = Mul(t, b)
        }},
        else_branch = t2 () => (float[2] w) {{ w = Mul(b, b) }}>
    }}"""
    for condition in (True, False):
        inputs = {"a": A, "b": B, "c": np.array(condition)}
        assert_gradient(text, ["y"], ["a", "b"], inputs, second_order=True)


@pytest.mark.parametrize("condition", [True, False])
def test_sequences_within_a_trip(condition: bool) -> None:
    text = """(float[3,2] a, int64 n, bool c) => (float[2] y) {
      k = Constant<value_int = 0>() row = Gather(a, k)
      y = Loop(n, , row) <body = body (int64 i, bool go, float[2] v) => (bool on, float[2] w) {
        on = Identity(go)
        m = Constant<value_int = 3>() j = Mod(i, m)
        h = Mul(a, v)
        s = SplitToSequence<axis = 0, keepdims = 0>(h)
        t = SequenceAt(s, j)
        u = SequenceInsert(s, t, i)
        q = If(c) <
          then_branch = t1 () => (seq(float[2]) b) { b = SequenceErase(u, j) },
          else_branch = t2 () => (seq(float[2]) d) { d = SequenceInsert(u, v) }>
        p = ConcatFromSequence<axis = 0, new_axis = 1>(q)
        z = ReduceSum<keepdims = 0>(p)
        x = Mul(z, t) w = Tanh(x)
      }>
    }"""
    inputs = {"a": A, "n": np.array(3), "c": np.array(condition)}
    assert_gradient(text, ["y"], ["a"], inputs, second_order=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types(dtype: type) -> None:
    name = {np.float16: "float16", np.float64: "double"}[dtype]
    text = f"""({name}[3,2] a, {name}[2] b) => ({name}[M,2] y) {{
      {ROWS}
      i = Constant<value_int = 1>()
      t = SequenceAt(s, i) u = SequenceErase(s, i) v = Mul(t, b) w = SequenceInsert(u, v)
      y = ConcatFromSequence<axis = 0, new_axis = 1>(w)
    }}"""
    inputs = {"a": A.astype(dtype), "b": B.astype(dtype)}
    assert_gradient(text, ["y"], ["a", "b"], inputs)
