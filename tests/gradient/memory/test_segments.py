"""Loops that are run again in segments have the gradients that they have anyway."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from tests.judge import assert_gradient, parse

from whileback import budget, compile
from whileback.errors import UnsupportedError
from whileback.gradient import vjp
from whileback.gradient.memory.strategies import Memory
from whileback.graph.scopes import is_loop, walk

# Two levels of segments, for 27 trips, come down to 9 frames.
STRATEGIES: list[Memory] = ["recompute", "checkpoint", budget(frames=10, trips=27)]
WEIGHT = np.array([[0.5, -0.25], [0.75, 0.125]], np.float32)

COUNTED = """(int64 M, float[2] x, float[2,2] w) => (float[2] y, float[T,2] s) {
  y, s = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u, float[2] r) {
    d = Identity(c)
    h = MatMul(v, w)
    f = Cast<to = 1>(i)
    g = Mul(h, f)
    u = Sin(g)
    r = Mul(u, v)
  }>
}"""
ENDED_BY_A_CONDITION = """
(float[2] x, float[2,2] w, float least) => (float[2] y, float t, float[T,2] s) {
  one = Constant<value_float = 1.0>()
  start = ReduceMax<keepdims = 0>(x)
  go = Greater(start, least)
  y, t, s = Loop(, go, x, one)
    <body = b (int64 i, bool c, float[2] v, float k) => (bool d, float[2] u, float n, float[2] r) {
    half = Constant<value_float = 0.75>()
    h = MatMul(v, w)
    u = Tanh(h)
    n = Mul(k, half)
    d = Greater(n, least)
    r = Mul(u, n)
  }>
}"""
SCAN = """(float[2] x, float[T,2] a, float[2,T] b) => (float[2] y, float[T,2] s, float[2,T] q) {
  y, s, q = Scan<num_scan_inputs = 2, scan_input_axes = [0, -1], scan_input_directions = [0, 1],
      scan_output_axes = [0, -1], scan_output_directions = [1, 0],
      body = g (float[2] v, float[2] p, float[2] o) => (float[2] u, float[2] r, float[2] e) {
    m = Mul(v, p)
    n = Add(m, o)
    u = Sin(n)
    r = Mul(u, p)
    e = Mul(r, o)
  }>(x, a, b)
}"""
NESTED = """(int64 M, int64 K, float[2] x, float[2,2] w) => (float[2] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
    d = Identity(c)
    t = Loop(K, , v) <body = e (int64 j, bool f, float[2] p) => (bool g, float[2] q) {
      g = Identity(f)
      h = MatMul(p, w)
      q = Tanh(h)
    }>
    k = ReduceSum<keepdims = 0>(t)
    zero = Constant<value_float = 0.0>()
    up = Greater(k, zero)
    u = If(up) <
      then_branch = then () => (float[2] m) { m = Mul(t, v) },
      else_branch = other () => (float[2] n) { n = Sin(t) }
    >
  }>
}"""


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, 2)).astype(np.float32)


@pytest.mark.parametrize("memory", STRATEGIES, ids=str)
@pytest.mark.parametrize("trips", [0, 1, 2, 7, 27])
def test_loops_that_run_to_their_limit(memory: Memory, trips: int) -> None:
    inputs = {"M": trips, "w": WEIGHT}
    second = trips in (0, 2, 7)
    assert_gradient(COUNTED, ["y", "s"], ["x", "w"], inputs, memory=memory, second_order=second)
    assert_gradient(COUNTED, ["y"], ["x", "w"], inputs, memory=memory)


@pytest.mark.parametrize("memory", STRATEGIES, ids=str)
@pytest.mark.parametrize(("least", "trips"), [(2.0, 0), (0.9, 1), (0.2, 6), (0.0005, 27)])
def test_loops_that_end_when_they_are_done(memory: Memory, least: float, trips: int) -> None:
    inputs = {"x": np.float32([1.5, -0.5]), "w": WEIGHT, "least": np.float32(least)}
    assert compile(parse(ENDED_BY_A_CONDITION))(inputs)["s"].shape[0] == trips
    of, wrt = ["y", "s", "t"], ["x", "w"]
    second = trips == 6
    assert_gradient(
        ENDED_BY_A_CONDITION, of, wrt, inputs, memory=memory, second_order=second, kinks=True
    )


@pytest.mark.parametrize("memory", STRATEGIES, ids=str)
@pytest.mark.parametrize("trips", [1, 2, 7, 27])
def test_scans_along_any_axis_in_any_direction(memory: Memory, trips: int) -> None:
    inputs = {"a": rows(trips), "b": rows(trips).T.copy()}
    second = trips == 7
    for text in (SCAN, SCAN.replace("T]", f"{trips}]").replace("[T", f"[{trips}")):
        assert_gradient(
            text, ["y", "s", "q"], ["x", "a", "b"], inputs, memory=memory, second_order=second
        )


@pytest.mark.parametrize(
    "memory",
    [
        "checkpoint",
        {"y": "checkpoint"},
        {"t": "checkpoint"},
        {"y": "recompute", "t": budget(frames=6, trips=8)},
    ],
    ids=str,
)
def test_loops_in_loops_and_branches(memory: Memory) -> None:
    inputs = {"M": 5, "K": 3, "w": WEIGHT, "x": np.float32([0.5, 0.25])}
    assert_gradient(NESTED, ["y"], ["x", "w"], inputs, memory=memory, second_order=True)


RNN = """(int64 M, float[2] x, float[2,2] w) => (float[2] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
    d = Identity(c)
    h = MatMul(v, w)
    u = Tanh(h)
  }>
}"""


def trips_made(model: ir.Model, inputs: dict[str, object], folder: Path) -> list[tuple[str, int]]:
    """Return which trips ONNX Runtime makes, forward (f), again (a) or back (b), run by run."""
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    session.run(None, {name: np.asarray(value) for name, value in inputs.items()})
    events = json.loads(Path(session.end_profiling()).read_text())
    nodes = [event["name"] for event in events if event.get("cat") == "Node"]
    forward, *again = [node.name for node in walk(model.graph) if node.op_type == "Tanh"]
    kinds = {f"{forward}_kernel_time": "f", "MatMul/grad/MatMul_kernel_time": "b"}
    kinds |= {f"{name}_kernel_time": "a" for name in again}
    made = [kinds[name] for name in nodes if name in kinds]
    return [(kind, len(list(group))) for kind, group in groupby(made)]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("keep", [("f", 10), ("b", 10)]),
        ("checkpoint", [("f", 10)] + [("a", 2), ("b", 2)] + 2 * [("a", 4), ("b", 4)]),
        (
            budget(frames=9, trips=27),
            # Two segments of five, each made again as a whole, then the two and the three of it.
            [("f", 10)] + 2 * [("a", 5 + 2), ("b", 2), ("a", 3), ("b", 3)],
        ),
    ],
    ids=str,
)
def test_which_trips_are_made_again_and_when(
    memory: Memory, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    model = vjp(parse(RNN), "y", ["x", "w"], memory=memory)
    inputs = {"M": 10, "x": np.ones(2, np.float32), "w": WEIGHT, "y_grad": np.ones(2, np.float32)}
    assert trips_made(model, inputs, tmp_path) == expected


def test_a_loop_ended_by_a_condition_computes_no_more_ahead_than_that() -> None:
    model = vjp(parse(ENDED_BY_A_CONDITION), "y", "x", memory="checkpoint")
    ahead = next(node for node in model.graph if is_loop(node))
    body = ahead.attributes["body"].as_graph()
    assert [node.op_type for node in body] == ["Mul", "Greater", "Add"]


def test_draws_are_kept_and_not_drawn_again() -> None:
    text = """(int64 M, float[2] x) => (float[2] y, float[T,2] s) {
      y, s = Loop(M, , x)
        <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u, float[2] r) {
        d = Identity(c)
        e = RandomNormal<shape = [2]>()
        m = Mul(v, e)
        u = Add(m, e)
        r = Identity(e)
      }>
    }"""
    given = """(float[T,2] e, float[2] x) => (float[2] y) {
      y = Scan<num_scan_inputs = 1, body = b (float[2] v, float[2] e) => (float[2] u) {
        m = Mul(v, e)
        u = Add(m, e)
      }>(x, e)
    }"""
    x, seed = np.float32([0.5, -1.5]), np.float32([1, 2])
    run = compile(vjp(parse(text), "y", "x", memory="checkpoint"))(M=7, x=x, y_grad=seed)
    expected = compile(vjp(parse(given), "y", "x"))(e=run["s"], x=x, y_grad=seed)
    np.testing.assert_allclose(run["y"], expected["y"], rtol=1e-6)
    np.testing.assert_allclose(run["x_grad"], expected["x_grad"], rtol=1e-6)


def test_draws_of_changing_number_are_refused() -> None:
    text = """(int64 M, float[2] x) => (float y) {
      zero = Constant<value_float = 0.0>()
      y = Loop(M, , zero) <body = b (int64 i, bool c, float v) => (bool d, float u) {
        d = Identity(c)
        one = Constant<value_ints = [1]>()
        n = Reshape(i, one)
        shape = Add(n, one)
        zeros = ConstantOfShape(shape)
        e = RandomUniformLike(zeros)
        r = ReduceSum<keepdims = 0>(e)
        z = Mul(x, r)
        a = ReduceSum<keepdims = 0>(z)
        u = Add(v, a)
      }>
    }"""
    with pytest.raises(UnsupportedError) as error:
        vjp(parse(text), "y", "x", memory={"y": "checkpoint"})
    assert str(error.value) == (
        "Node 'Loop' (Loop) cannot be split into segments: it draws random numbers whose shape "
        'changes from trip to trip. Draw as many numbers in every trip, or say memory="keep" for '
        "this loop, and no truncate=."
    )


def test_a_stack_of_unknown_rank_along_a_negative_axis_is_refused() -> None:
    text = """(float[2] x, float b) => (float[2] y) {
      y = Scan<num_scan_inputs = 1, scan_input_axes = [-1],
          body = g (float[2] v, float[2] p) => (float[2] u) { u = Mul(v, p) }>(x, b)
    }"""
    model = parse(text)
    model.graph.inputs[1].shape = None
    with pytest.raises(UnsupportedError) as error:
        vjp(model, "y", "x", memory="checkpoint")
    assert str(error.value) == (
        "Node 'Scan' (Scan) cannot be split into segments: its stack 'b' runs along axis -1, and "
        'has a rank that is not known. Declare the shape, or say memory="keep" for this loop, and '
        "no truncate=."
    )


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A list without elements, such as the axes of no stacks, has no type that can be guessed."""
    scan = """(float x, float[T] table) => (float y) {
      y = Scan(x, table) <num_scan_inputs = 1,
        body = b (float v, float t) => (float u) { u = Mul(v, t) }>
    }"""
    vjp(parse(scan), "y", ["x"], memory="checkpoint")
    assert caplog.records == []


def test_a_loop_that_carries_nothing() -> None:
    """ONNX wants two inputs of every Loop."""
    model = """(int64 n, float[2] x) => (float[2] y) {
      axis = Constant<value = int64[1] {0}>()
      yes = Constant<value = bool {1}>()
      stack = Loop(n, yes) <body = b (int64 i, bool c) => (bool go, float[2] row) {
        go = Identity(c)
        f = Cast<to = 1>(i)
        p = Mul(x, f)
        row = Sin(p)
      }>
      y = ReduceSum<keepdims = 0>(stack, axis)
    }"""
    assert_gradient(model, ["y"], ["x"], {"n": 5}, memory="checkpoint")
