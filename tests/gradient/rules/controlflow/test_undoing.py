"""Buffers that are read as a whole are not kept from every trip: their writes are undone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.gradient import vjp
from whileback.gradient.memory.strategies import Memory
from whileback.graph.scopes import is_loop, loop_view
from whileback.graph.tape import tape_of

B0 = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32) / 2
INDICES = np.array([3, 3, 1, -1, 0, 3, 8])
LOOP = """(int64 M, float[%s] B0, int64[T] indices, float[4] v0, float[4,2] w)
    => (float[%s] B, float[4] v) {
  B, v = Loop(M, , B0, v0)
    <body = b (int64 i, bool c, float[%s] A, float[4] s) => (bool d, float[%s] Z, float[4] u) {
    d = Identity(c)
    one = Constant<value_ints = [1, 1]>()
    zero = Constant<value_ints = [0]>()
    three = Constant<value_int = 3>()
    r = Unsqueeze(s, zero)
    %s
  }>
}"""
PLACE = "m = Gather(indices, i) k = Reshape(m, one)"
# Each body ends with the next buffer Z and the next value u.
BODIES = {
    "read before it is written": """e = MatMul(A, s) g = Tanh(e) u = MatMul(g, A)
        k = Reshape(i, one) Z = ScatterND(A, k, r)""",
    "read after it is written": """k = Reshape(i, one) Z = ScatterND(A, k, r)
        e = MatMul(Z, s) g = Tanh(e) u = MatMul(g, Z)""",
    "read before and after": f"""{PLACE} Z = ScatterND(A, k, r)
        e = MatMul(A, s) g = Tanh(e) u = MatMul(g, Z)""",
    "computed again from it": f"""n = Neg(A) p = Add(n, A) q = Mul(n, A) t = Sin(q)
        u = ReduceSum<keepdims = 0>(t, zero) {PLACE} Z = ScatterND(A, k, r)""",
    "added to": f"""{PLACE} Z = ScatterND<reduction = "add">(A, k, r)
        e = MatMul(Z, s) g = Tanh(e) u = MatMul(g, A)""",
    "written at one place": """k = Constant<value = int64[1,1] {2}>() Z = ScatterND(A, k, r)
        e = MatMul(Z, s) g = Tanh(e) u = MatMul(g, A)""",
    "written at the number of the trip": """l = Unsqueeze(i, zero) Z = ScatterND(A, l, s)
        e = MatMul(Z, s) g = Tanh(e) u = MatMul(g, A)""",
    "written element by element": f"""shape = Constant<value_ints = [1, 4]>() {PLACE}
        l = Expand(k, shape) Z = ScatterElements(A, l, r)
        e = MatMul(Z, s) g = Tanh(e) u = MatMul(g, A)""",
    "read in a branch": f"""{PLACE} Z = ScatterND(A, k, r) n = Mod(i, three) h = Cast<to = 9>(n)
        u = If(h) <
          then_branch = t () => (float[4] y) {{ e = MatMul(Z, s) g = Tanh(e) y = MatMul(g, A) }},
          else_branch = o () => (float[4] x) {{ x = Sin(s) }}>""",
    "multiplied by a weight": f"""{PLACE} Z = ScatterND(A, k, r) e = MatMul(Z, w) g = Tanh(e)
        a = ReduceSum<keepdims = 0>(g, zero) o = MatMul(w, a) u = Tanh(o)""",
}


def kept(model: ir.Model) -> set[str]:
    """Return the names of what the loops of the main graph stack."""
    views = [loop_view(node) for node in model.graph if is_loop(node)]
    return {str(scan.row.name) for view in views for scan in view.scan_outputs}


@pytest.mark.parametrize("body", BODIES)
def test_buffers(body: str) -> None:
    text = LOOP % (*["N, 4"] * 4, BODIES[body])
    wrt = ["B0", "v0", *(["w"] if "weight" in body else [])]
    for trips in (0, 1, 7):
        inputs = {"M": trips, "B0": B0, "indices": INDICES}
        assert_gradient(text, ["B", "v"], wrt, inputs, second_order=trips == 7)
    model = vjp(parse(text), ["v"], wrt)
    assert kept(model).isdisjoint({"A", "Z"})


@pytest.mark.parametrize("memory", ["keep", "recompute", "checkpoint"])
def test_strategies(memory: Memory) -> None:
    text = LOOP % (*["N, K"] * 4, BODIES["read before and after"])
    inputs = {"M": 7, "B0": B0, "indices": INDICES}
    assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs, memory=memory, second_order=True)


def test_two_buffers_in_a_scan() -> None:
    text = """(float[N,3] P0, float[N,3] Q0, int64 start, float[T,3] x)
        => (float[N,3] P, float[N,3] Q, float[T] y) {
      P, Q, last, y = Scan<num_scan_inputs = 1, body = b
          (float[N,3] A, float[N,3] G, int64 place, float[3] row)
          => (float[N,3] A2, float[N,3] G2, int64 next, float z) {
        one = Constant<value_int = 1>()
        axis = Constant<value_ints = [0]>()
        next = Sub(place, one)
        k = Unsqueeze(place, axis)
        A2 = ScatterND(A, k, row)
        e = MatMul(A2, row)
        h = MatMul(e, G)
        f = Sin(h)
        G2 = ScatterND(G, k, f)
        z = ReduceSum<keepdims = 0>(f)
      }>(P0, Q0, start, x)
    }"""
    inputs = {"x": B0[:7, :3], "P0": B0[:, 1:], "Q0": B0[:, :3], "start": 2}
    assert_gradient(text, ["P", "Q", "y"], ["P0", "Q0", "x"], inputs, second_order=True)
    model = vjp(parse(text), ["y"], ["x"])
    assert kept(model).isdisjoint({"A", "A2", "G", "G2"})


def test_a_loop_in_a_loop() -> None:
    text = """(int64 M, int64 K, float[N,4] B0, float[4] v0) => (float[N,4] B, float[4] v) {
      B, v = Loop(M, , B0, v0)
          <body = b (int64 i, bool c, float[N,4] A, float[4] s)
          => (bool d, float[N,4] Z, float[4] u) {
        d = Identity(c)
        Z, u = Loop(K, , A, s)
            <body = e (int64 j, bool f, float[N,4] P, float[4] q)
            => (bool g, float[N,4] R, float[4] t) {
          g = Identity(f)
          axis = Constant<value_ints = [0]>()
          n = Add(i, j)
          k = Unsqueeze(n, axis)
          R = ScatterND(P, k, q)
          h = MatMul(R, q)
          o = Tanh(h)
          t = MatMul(o, P)
        }>
      }>
    }"""
    for outer, inner in ((0, 2), (2, 0), (2, 3)):
        inputs = {"M": outer, "K": inner, "B0": B0}
        assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs, second_order=inner == 3)


def test_a_buffer_of_unknown_length_is_not_kept_for_its_size() -> None:
    """The gradient of reading one of its rows asks for the buffer's shape, and no more."""
    body = f"y = Gather(A, i) u = Tanh(y) {PLACE} Z = ScatterND(A, k, r)"
    text = LOOP % (*["N, 4"] * 4, body)
    inputs = {"M": 7, "B0": B0, "indices": INDICES}
    assert_gradient(text, ["B", "v"], ["B0", "v0"], inputs, second_order=True)
    assert kept(vjp(parse(text), ["v"], ["B0"])) == {"u"}


def test_a_small_buffer_is_kept() -> None:
    text = LOOP % (*["9, 4"] * 4, BODIES["read after it is written"])
    assert_gradient(text, ["B", "v"], ["B0", "v0"], {"M": 7, "B0": B0, "indices": INDICES})
    assert "Z" in kept(vjp(parse(text), ["v"], ["B0"]))


@pytest.mark.parametrize(("width", "undone"), [("n", True), ("64", True), ("8", False)])
def test_windows_are_undone_where_they_are_large(width: str, undone: bool) -> None:
    """Of a small one a copy is kept: that takes less than to slide it back."""
    model = parse(
        """(int64 M, float[%s] B0, float[1] v0) => (float[%s] B, float[1] v) {
          B, v = Loop(M, , B0, v0)
            <body = b (int64 i, bool c, float[%s] A, float[1] s)
              => (bool d, float[%s] Z, float[1] u) {
            d = Identity(c)
            one = Constant<value_ints = [1]>()
            end = Constant<value_ints = [9223372036854775807]>()
            g = Mul(A, A) m = ReduceMean(g) p = Mul(m, s) u = Sin(p)
            r = Slice(A, one, end) Z = Concat<axis = 0>(r, u)
          }>
        }"""
        % ((width,) * 4)
    )
    (note,) = (
        "\n".join(tape.lines())
        for node in vjp(model, ["v"], ["B0", "v0"]).graph
        if (tape := tape_of(node)) is not None
    )
    assert (f"A FLOAT[{width}]" in note and "copied in every trip" in note) is undone
