"""Loops that append to what they do not read: the parts are stacked, and joined after the loop."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp
from whileback.graph.scopes import walk

TENSOR = """(int64 M, float[{dims}] x, float[{start}] y0) => (float[{result}] y) {{
  last, y = Loop(M, , x, y0)
    <body = b (int64 i, bool c, float[{dims}] v, float[{before}] p)
      => (bool go, float[{dims}] w, float[{after}] q) {{
    go = Identity(c)
    w = Sin(v)
    q = Concat<axis = {axis}>({inputs})
  }}>
}}"""
SEQUENCE = """(int64 M, float[2,3] x) => (seq(float[2,3]) s, float n) {
  s0 = SequenceEmpty()
  last, s = Loop(M, , x, s0)
    <body = b (int64 i, bool c, float[2,3] v, seq(float[2,3]) t)
      => (bool go, float[2,3] w, seq(float[2,3]) r) {
    go = Identity(c)
    w = Sin(v)
    r = SequenceInsert(t, w)
  }>
  e = SequenceInsert(s, x)
  y = ConcatFromSequence<axis = 1>(e)
  z = Sin(y)
  n = ReduceSum<keepdims = 0>(z)
}"""
FORMS = {
    "behind": {"axis": 0, "inputs": "p, w", "dims": "2,3", "start": "4,3"},
    "before": {"axis": 0, "inputs": "w, p", "dims": "2,3", "start": "4,3"},
    "columns": {"axis": 1, "inputs": "p, w", "dims": "2,3", "start": "2,1"},
    "from behind": {"axis": -1, "inputs": "w, p", "dims": "2,3", "start": "2,1"},
    "unknown rows": {"axis": 1, "inputs": "p, w", "dims": "B,3", "start": "B,1"},
    "to nothing": {"axis": 0, "inputs": "p, w", "dims": "2,3", "start": "0,3"},
}


def model(form: str) -> str:
    values = FORMS[form]
    changing = {
        name: ",".join(
            f"{name}{k}" if k == values["axis"] % 2 else dim
            for k, dim in enumerate(values["dims"].split(","))
        )
        for name in ("result", "before", "after")
    }
    return TENSOR.format(**values, **changing)


def bodies(made: ir.Model) -> list[str]:
    loops = [each for each in walk(made.graph) if each.op_type in ("Loop", "Scan")]
    return [inner.op_type for each in loops for inner in each.attributes["body"].as_graph()]


@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_tensors(form: str, trips: int) -> None:
    text = model(form)
    made = vjp(parse(text), ["y"], ["x", "y0"])
    assert "Concat" not in bodies(made)
    assert "Split" not in bodies(made)
    inputs = {"M": trips}
    if form == "unknown rows":
        inputs |= {"x": np.ones((2, 3), np.float32), "y0": np.ones((2, 1), np.float32)}
    assert_gradient(text, ["y"], ["x", "y0"], inputs, second_order=trips == 3)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_sequences(trips: int) -> None:
    made = vjp(parse(SEQUENCE), ["n"], ["x"])
    assert "SequenceInsert" not in bodies(made)
    assert not [each for each in walk(made.graph) if each.op_type == "SequenceMap"]
    assert_gradient(SEQUENCE, ["n"], ["x"], {"M": trips}, second_order=trips == 3)


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
@pytest.mark.parametrize("trips", [0, 5])
def test_memory_strategies(memory: str, trips: int) -> None:
    assert_gradient(model("behind"), ["y"], ["x", "y0"], {"M": trips}, memory=memory)
    assert_gradient(SEQUENCE, ["n"], ["x"], {"M": trips}, memory=memory)


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("w = Sin(v)", "r = ReduceSum<keepdims = 0>(p) w = Mul(v, r)"),
        ("p, w", "p, w, p"),
        ("p, w", "p, p"),
    ],
)
def test_what_is_read_stays_in_the_loop(what: str, by: str) -> None:
    text = model("behind").replace(what, by)
    assert "Concat" in bodies(vjp(parse(text), ["y"], ["y0"]))
    assert_gradient(text, ["y"], ["y0"], {"M": 2})


def test_many_trips_that_append_to_both_ends() -> None:
    text = """(int64 M, double[1] x) => (double[K] y, double[L] z) {
      v, y, z = Loop(M, , x, x, x)
        <body = b (int64 i, bool c, double[1] v, double[P] p, double[Q] q)
          => (bool go, double[1] w, double[R] r, double[S] s) {
        go = Identity(c)
        one = Constant<value = double {1.0}>()
        w = Add(v, one)
        r = Concat<axis = 0>(p, w)
        s = Concat<axis = 0>(w, q)
      }>
    }"""
    got = compile(vjp(parse(text), ["y", "z"], ["x"]))(
        M=4000, x=[0.0], y_grad=np.ones(4001), z_grad=np.ones(4001)
    )
    np.testing.assert_array_equal(got["y"], np.arange(4001))
    np.testing.assert_array_equal(got["z"], [*np.arange(4000, 0, -1), 0])
    assert got["x_grad"] == pytest.approx(8002)
