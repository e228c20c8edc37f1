"""Conformance case H6: bodies that read and write rows cost a row in every trip."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.gradient import vjp
from whileback.graph.scopes import is_loop, loop_view, walk

READ = """(int64 M, float[N,2] X, float[2] x0) => (float[2] x) {
  x = Loop(M, , x0) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) {
    d = Identity(c)
    row = Gather(X, i)
    p = Mul(row, s)
    q = Add(p, row)
    u = Sin(q)
  }>
}"""
WRITTEN = """(int64 M, float[N,2] B0, float[2] x0) => (float[N,2] B, float[2] x) {
  B, x = Loop(M, , B0, x0)
      <body = b (int64 i, bool c, float[N,2] A, float[2] s) => (bool d, float[N,2] Z, float[2] u) {
    d = Identity(c)
    zero = Constant<value_ints = [0]>()
    k = Unsqueeze(i, zero)
    u = Cos(s)
    Z = ScatterND(A, k, u)
  }>
}"""
# A row that is three trips old is read, and the oldest of eight is written over.
RING = """(int64 M, float[8,2] B0, float[2] w) => (float[8,2] B) {
  B = Loop(M, , B0) <body = b (int64 i, bool c, float[8,2] A) => (bool d, float[8,2] Z) {
    d = Identity(c)
    zero = Constant<value_ints = [0]>()
    five = Constant<value_int = 5>()
    eight = Constant<value_int = 8>()
    j = Add(i, five)
    old = Mod(j, eight)
    new = Mod(i, eight)
    row = Gather(A, old)
    p = Mul(row, w)
    o = Add(p, w)
    q = Sin(o)
    k = Unsqueeze(new, zero)
    Z = ScatterND(A, k, q)
  }>
}"""
# Each trip adds a key to a cache and attends to all of it.
CACHE = """(int64 M, float[N,2] B0, float[2] x0) => (float[N,2] B, float[2] x) {
  B, x = Loop(M, , B0, x0)
      <body = b (int64 i, bool c, float[N,2] A, float[2] s) => (bool d, float[N,2] Z, float[2] u) {
    d = Identity(c)
    zero = Constant<value_ints = [0]>()
    k = Unsqueeze(i, zero)
    Z = ScatterND(A, k, s)
    e = MatMul(Z, s)
    g = Softmax(e)
    h = MatMul(g, Z)
    u = Sin(h)
  }>
}"""
CASES = {
    "read": (READ, ["x"], ["X", "x0"]),
    "written": (WRITTEN, ["B", "x"], ["B0", "x0"]),
    "ring": (RING, ["B"], ["B0", "w"]),
    "cache": (CACHE, ["B", "x"], ["B0", "x0"]),
}
ROWS = np.random.default_rng(6).uniform(0.5, 1.5, size=(4000, 2)).astype(np.float32)


def buffers(trips: int) -> dict[str, np.ndarray]:
    return {"X": ROWS[:trips], "B0": ROWS[:trips], "x0": ROWS[0], "w": ROWS[1]}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("trips", [0, 1, 7])
def test_values(case: str, trips: int) -> None:
    text, of, wrt = CASES[case]
    given = buffers(8 if case == "ring" else trips)
    inputs = {"M": trips} | {name: given[name] for name in wrt}
    assert_gradient(text, of, wrt, inputs, second_order=trips == 7)


@pytest.mark.parametrize("case", ["read", "written", "ring"])
def test_values_of_many_trips(case: str) -> None:
    text, of, wrt = CASES[case]
    wrt = [name for name in wrt if (case, name) != ("ring", "B0")]  # of which nothing is left
    given = buffers(8 if case == "ring" else 4000)
    inputs = {"M": 4000} | {name: given[name] for name in CASES[case][2]}
    assert_gradient(text, of, wrt, inputs, elements=3, directions=1)


def touching_buffers(model: ir.Model) -> list[tuple[str, ...]]:
    """Return, for each loop, the operators in it that read or give something of N rows."""
    return [
        tuple(node.op_type for node in loop_view(loop).body if any(map(is_long, values_of(node))))
        for loop in walk(model.graph)
        if is_loop(loop)
    ]


def values_of(node: ir.Node) -> list[ir.Value]:
    return [value for value in (*node.inputs, *node.outputs) if value is not None]


def is_long(value: ir.Value) -> bool:
    return any(str(dim) in ("N", "8") for dim in value.shape or ())


@pytest.mark.parametrize(
    ("case", "forward", "back"),
    [
        ("read", ("Gather",), ("Gather",)),
        ("written", (), ()),
        ("ring", ("Gather", "ScatterND"), ("ScatterND", "GatherND", "ScatterND", "Add")),
    ],
)
def test_which_operators_meet_a_whole_buffer(
    case: str, forward: tuple[str, ...], back: tuple[str, ...]
) -> None:
    """What a trip costs that has none of them but `Gather` does not depend on the buffer."""
    text, of, wrt = CASES[case]
    assert touching_buffers(vjp(parse(text), of, wrt)) == [forward, back]


def test_a_cache_costs_what_its_forward_trips_read() -> None:
    """The way back meets it as often as the way there, and puts back rows, which are kept."""
    text, of, wrt = CASES["cache"]
    model = vjp(parse(text), of, wrt)
    forward, back = touching_buffers(model)
    assert forward.count("ScatterND") == 1 and back.count("ScatterND") == 2
    (loop, _) = (node for node in walk(model.graph) if is_loop(node))
    rows = {str(scan.row.name): scan.row for scan in loop_view(loop).scan_outputs}
    assert not any(is_long(row) and len(row.shape or ()) > 1 for row in rows.values()), list(rows)
