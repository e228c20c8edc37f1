"""What a loop carries and no trip changes is captured instead."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback import compile
from whileback.gradient import vjp
from whileback.graph.scopes import is_loop, loop_view, walk

LOOP = """(int64 M, float[N,4] X, float[4,4] W, float[4] v0)
    => (float[N,4] X1, float[4,4] W1, float[4] v) {
  X1, v, W1 = Loop(M, , X, v0, W)
      <body = b (int64 i, bool c, float[N,4] A, float[4] s, float[4,4] U)
      => (bool d, float[N,4] A, float[4] u, float[4,4] U2) {
    d = Identity(c)
    x = Gather(A, i)
    t = Identity(U)
    U2 = Identity(t)
    p = Add(x, s)
    q = MatMul(p, U2)
    u = Tanh(q)
  }>
}"""
SCAN = """(float[2] v0, float[2] w, float[T,2] x) => (float[2] v, float[2] w1, float[T,2] y) {
  w1, v, y = Scan<num_scan_inputs = 1, body = b (float[2] k, float[2] s, float[2] r)
      => (float[2] k1, float[2] u, float[2] z) {
    k1 = Identity(k)
    p = Mul(s, k)
    u = Sin(p)
    z = Add(u, r)
  }>(w, v0, x)
}"""


def carries(model: ir.Model) -> list[str]:
    """Return the names of what the forward loop carries."""
    loop = next(filter(is_loop, walk(model.graph)))
    return [str(carry.input.name) for carry in loop_view(loop).carries]


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_loops(trips: int) -> None:
    X = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
    of, wrt = ["X1", "W1", "v"], ["X", "W", "v0"]
    inputs = {"M": trips, "X": X}
    assert_gradient(LOOP, of, wrt, inputs, second_order=trips == 7)
    assert_gradient(LOOP, of, wrt, inputs, memory={"W1": "checkpoint"})
    assert carries(vjp(parse(LOOP), of, wrt)) == ["s"]


@pytest.mark.parametrize("trips", [1, 7])
def test_scans(trips: int) -> None:
    x = np.random.default_rng(2).normal(size=(trips, 2)).astype(np.float32)
    of, wrt = ["v", "w1", "y"], ["v0", "w", "x"]
    assert_gradient(SCAN, of, wrt, {"x": x}, second_order=trips == 7)
    assert carries(vjp(parse(SCAN), of, wrt)) == ["s"]


@pytest.mark.parametrize(
    ("outputs", "declared", "results"),
    [
        ("x1", "float[2] x1", "float[2] a"),
        ("x1 rows", "float[2] x1, float[T,2] rows", "float[2] a, float[2] a"),
    ],
)
def test_what_is_the_only_result_or_stacked_as_well_stays(
    outputs: str, declared: str, results: str
) -> None:
    of = outputs.split()
    text = f"""(int64 M, float[2] x) => ({declared}) {{
      {", ".join(of)} = Loop(M, , x)
          <body = b (int64 i, bool c, float[2] a) => (bool d, {results}) {{
        d = Identity(c)
      }}>
    }}"""
    assert_gradient(text, of, ["x"], {"M": 3}, second_order=True)
    assert_gradient(text, of, ["x"], {"M": 0})
    assert carries(vjp(parse(text), of, ["x"])) == ["a"]


def test_values_exchanged_by_two_carries_stay() -> None:
    text = """(int64 M, float[2] x, float[2] y) => (float[2] x1, float[2] y1) {
      x1, y1 = Loop(M, , x, y)
          <body = b (int64 i, bool c, float[2] a, float[2] b) => (bool d, float[2] b, float[2] a) {
        d = Identity(c)
      }>
    }"""
    assert_gradient(text, ["x1", "y1"], ["x", "y"], {"M": 3}, second_order=True)
    forward = compile(parse(text))({"M": 3, "x": np.float32([1, 2]), "y": np.float32([3, 4])})
    assert forward["x1"].tolist() == [3, 4]


@pytest.mark.parametrize("trips", [0, 3])
def test_what_has_a_rank_in_the_body_only_stays(trips: int) -> None:
    text = """(int64 M, float[N] x, int64[K] shape, float[2,2] v0) => (float[2,2] v) {
      w = Reshape(x, shape)
      w1, v = Loop(M, , w, v0)
          <body = b (int64 i, bool c, float[2,2] a, float[2,2] s)
          => (bool d, float[2,2] a, float[2,2] u) {
        d = Identity(c)
        p = MatMul(s, a)
        u = Tanh(p)
      }>
    }"""
    inputs = {"M": trips, "x": np.float32([1, 2, 0.5, 3]), "shape": np.array([2, 2])}
    assert_gradient(text, ["v"], ["x", "v0"], inputs, second_order=trips == 3)
    assert carries(vjp(parse(text), ["v"], ["x"])) == ["a", "s"]
