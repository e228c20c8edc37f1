import numpy as np
import pytest
from tests.judge import Arrays, assert_gradient, parse

from whileback.engines import compile
from whileback.errors import UnsupportedError
from whileback.gradient import vjp

A = np.array([[0.5, -1.25], [2.0, 0.75], [1.5, -0.25]], np.float32)
B = np.array([0.75, -2.0], np.float32)
ROWS = "h = Mul(a, a) s = SplitToSequence<axis = 0, keepdims = 0>(h)"


def judge(
    body: str, *, wrt: tuple[str, ...] = ("a", "b"), arguments: str = "", **inputs: object
) -> Arrays:
    """Judge a body that makes a sequence `r` of the rows `s` and a tensor `b`.

    Once with its sizes, and once with sizes that are known when the model runs.
    """
    signature = ", ".join(filter(None, ["float[3,2] a, float[2] b", arguments]))
    text = f"""({signature}) => (float[M,N] y) {{
      {ROWS} {body}
      stack = ConcatFromSequence<axis = 0, new_axis = 1>(r)
      y = Mul(stack, stack)
    }}"""
    values = {"a": A, "b": B} | {n: np.asarray(v) for n, v in inputs.items()}
    unsized = text.replace("[3,2]", "[L,K]").replace("[2]", "[K]")
    assert_gradient(unsized, ["y"], list(wrt), values, second_order=True)
    return assert_gradient(text, ["y"], list(wrt), values, second_order=True)


def test_a_body_that_reads_from_outside() -> None:
    judge("""r = SequenceMap(s) <body = f (float[2] x) => (float[2] z) {
      k = Mul(x, b) z = Sin(k)
    }>""")


def test_a_tensor_for_all_elements_and_another_sequence() -> None:
    judge("""
      t = SequenceMap(s) <body = f (float[2] x) => (float[2] z) { z = Tanh(x) }>
      r = SequenceMap(s, b, t) <body = g (float[2] x, float[2] c, float[2] w) => (float[2] z) {
        k = Mul(x, c) z = Mul(k, w)
      }>
    """)


@pytest.mark.parametrize("read", ["u", "v"])
def test_several_outputs_of_which_not_all_are_read(read: str) -> None:
    judge(f"""
      u, v = SequenceMap(s) <body = f (float[2] x) => (float[2] p, float[2] q) {{
        p = Mul(x, b) q = Exp(p)
      }}>
      r = SequenceErase({read})
    """)


def test_one_element_for_two_outputs_and_unchanged() -> None:
    judge("""
      u, v = SequenceMap(s) <body = f (float[2] x) => (float[2] x, float[2] p) { p = Mul(x, b) }>
      r = SequenceMap(u, v) <body = g (float[2] x, float[2] w) => (float[2] z) { z = Mul(x, w) }>
    """)


def test_elements_of_different_shapes() -> None:
    text = """(float[2] a, float[3] b, float c) => (float[K] y) {
      s = SequenceConstruct(a, b, a)
      r = SequenceMap(s, c) <body = f (float[N] x, float k) => (float[N] z) {
        w = Mul(x, k) z = Mul(w, x)
      }>
      y = ConcatFromSequence<axis = 0>(r)
    }"""
    inputs = {"a": B, "b": np.arange(3, dtype=np.float32), "c": np.float32(0.5)}
    assert_gradient(text, ["y"], ["a", "b", "c"], inputs, second_order=True)


def test_a_map_over_nothing() -> None:
    text = """(float[N,2] a, float[2] b) => (float[2] y) {
      s = SplitToSequence<axis = 0, keepdims = 0>(a)
      r = SequenceMap(s) <body = f (float[2] x) => (float[2] z) { z = Mul(x, b) }>
      t = SequenceInsert(r, b)
      stack = ConcatFromSequence<axis = 0, new_axis = 1>(t)
      zero = Constant<value_ints = [0]>()
      y = ReduceProd<keepdims = 0>(stack, zero)
    }"""
    for rows in (0, 1, 3):
        inputs = {"a": A[:rows], "b": B}
        assert_gradient(text, ["y"], ["a", "b"], inputs, second_order=True)


def test_a_branch_in_a_map() -> None:
    judge("""
      one = Constant<value_float = 1.0>()
      r = SequenceMap(s) <body = f (float[2] x) => (float[2] z) {
        m = ReduceMax<keepdims = 0>(x)
        c = Greater(m, one)
        z = If(c) <then_branch = t1 () => (float[2] d) { d = Mul(x, b) },
                   else_branch = t2 () => (float[2] e) { e = Sin(x) }>
      }>
    """)


def test_sequences_in_a_map() -> None:
    """The gradient of `SequenceAt` makes a sequence of zeros, of the body's own sequence."""
    text = f"""(float[3,2] a, float[2] b) => (float[3,1] y) {{
      {ROWS}
      r = SequenceMap(s) <body = f (float[2] x) => (float[1] z) {{
        t = SplitToSequence<axis = 0>(x)
        i = Constant<value_int = 1>() j = Constant<value_int = -2>()
        p = SequenceAt(t, i) q = SequenceAt(t, j) k = Mul(p, q) w = Gather(b, i) z = Mul(k, w)
      }}>
      y = ConcatFromSequence<axis = 0, new_axis = 1>(r)
    }}"""
    assert_gradient(text, ["y"], ["a", "b"], {"a": A, "b": B})


@pytest.mark.parametrize("condition", [True, False])
def test_a_map_in_a_branch(condition: bool) -> None:
    body = """
      r = If(c) <
        then_branch = t1 () => (seq(float[2]) u) {
          u = SequenceMap(s) <body = f (float[2] x) => (float[2] z) {
            k = Exp(x) m = Mul(k, b) z = Tanh(m)
          }>
        },
        else_branch = t2 () => (seq(float[2]) w) { w = SequenceErase(s) }>
    """
    judge(body, arguments="bool c", c=condition)


def test_a_map_in_a_loop() -> None:
    text = f"""(float[3,2] a, float[2] b, int64 n) => (float[2] y) {{
      {ROWS}
      y = Loop(n, , b) <body = body (int64 i, bool go, float[2] v) => (bool on, float[2] w) {{
        on = Identity(go)
        g = Mul(h, v)
        p = SplitToSequence<axis = 0, keepdims = 0>(g)
        q = SequenceMap(p) <body = f (float[2] x) => (float[2] z) {{ k = Exp(x) z = Mul(k, v) }}>
        r = ConcatFromSequence<axis = 0, new_axis = 1>(q)
        m = ReduceSum<keepdims = 0>(r)
        t = Mul(m, v) w = Tanh(t)
      }}>
    }}"""
    inputs = {"a": A, "b": B, "n": np.array(3)}
    assert_gradient(text, ["y"], ["a", "b"], inputs, second_order=True)


def test_a_loop_in_a_map() -> None:
    judge("""
      n = Constant<value_int = 2>()
      r = SequenceMap(s) <body = f (float[2] x) => (float[2] z) {
        z = Loop(n, , x) <body = g (int64 i, bool go, float[2] v) => (bool on, float[2] w) {
          on = Identity(go) k = Mul(v, b) w = Sin(k)
        }>
      }>
    """)


def test_sequences_of_sequences_are_refused_with_what_to_do() -> None:
    text = f"""(float[3,2] a) => (float[M,2] y) {{
      {ROWS}
      r = SequenceMap(s) <body = f (float[2] x) => (float[2] z) {{
        i = Constant<value_int = 0>() k = SequenceAt(s, i) z = Mul(k, x)
      }}>
      y = ConcatFromSequence<axis = 0, new_axis = 1>(r)
    }}"""
    with pytest.raises(UnsupportedError) as caught:
        vjp(parse(text), "y", "a")
    assert str(caught.value) == (
        "The body of 'SequenceMap' (SequenceMap) reads 's' (Sequence(Tensor(FLOAT))) from "
        "outside, and its gradient would be a sequence of sequences. Pass the tensors that it "
        "needs as inputs of the node."
    )


def test_the_forward_map_makes_what_the_way_back_reads() -> None:
    text = f"""(float[3,2] a, float[2] b) => (seq(float[2]) r, float[3,2] y) {{
      {ROWS}
      r = SequenceMap(s) <body = f (float[2] x) => (float[2] z) {{ k = Mul(x, b) z = Exp(k) }}>
      y = ConcatFromSequence<axis = 0, new_axis = 1>(r)
    }}"""
    results = compile(vjp(parse(text), "y", ["a"]))(a=A, b=B, y_grad=np.ones_like(A))
    want = np.exp(A * A * B)
    np.testing.assert_allclose(results["r"], want, rtol=1e-5)
    np.testing.assert_allclose(results["a_grad"], want * B * 2 * A, rtol=1e-5)
