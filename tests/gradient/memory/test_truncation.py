"""Truncated gradients: those of the last trips, with what went before them held as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback import compile
from whileback.errors import ArgumentError
from whileback.gradient import vjp
from whileback.gradient.memory.strategies import Memory
from whileback.graph.constants import known_ints
from whileback.graph.scopes import STANDS_FOR, is_loop, loop_view, walk

X = np.array([0.5, -0.75])
W = np.array([[0.5, -0.25], [0.75, 1.125]])

COUNTED = """(int64 M, double[2] x, double[2,2] w) => (double[2] y, double[T,2] s) {
  y, s = Loop(M, , x)
      <body = b (int64 i, bool c, double[2] v) => (bool d, double[2] u, double[2] r) {
    d = Identity(c)
    h = MatMul(v, w)
    f = Cast<to = 11>(i)
    g = Add(h, f)
    u = Sin(g)
    r = Mul(u, v)
  }>
}"""
ENDED_BY_A_CONDITION = """(int64 M, double[2] x, double[2,2] w) => (double[2] y, double[T,2] s) {
  zero = Constant<value_int = 0>()
  one = Constant<value_int = 1>()
  go = Less(zero, M)
  y, last, s = Loop(, go, x, zero) <body = b (int64 j, bool c, double[2] v, int64 i)
      => (bool d, double[2] u, int64 k, double[2] r) {
    k = Add(i, one)
    d = Less(k, M)
    h = MatMul(v, w)
    f = Cast<to = 11>(i)
    g = Add(h, f)
    u = Sin(g)
    r = Mul(u, v)
  }>
}"""
SCAN = """(double[2] x, double[2,2] w, double[2,T] a) => (double[2] y, double[T,2] s) {
  y, s = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
      scan_output_directions = [1],
      body = g (double[2] v, double[2] f) => (double[2] u, double[2] r) {
    h = MatMul(v, w)
    g = Add(h, f)
    u = Sin(g)
    r = Mul(u, v)
  }>(x, a)
}"""


def counted(x: np.ndarray, w: np.ndarray, a: np.ndarray, begin: int, end: int) -> list[np.ndarray]:
    """Return the carried value before each trip from `begin` on, and after the last of them."""
    values = [x]
    for trip in range(begin, end):
        values.append(np.sin(values[-1] @ w + a[trip]))
    return values


def truncated_sum(
    frozen: list[np.ndarray], trips: int, y: np.ndarray, s: np.ndarray
) -> Callable[..., float]:
    """Return Σ y·v_T + Σ s_t·v_t·v_{t+1}, in which every segment starts with what is frozen."""
    total = len(frozen) - 1

    def evaluate(x: np.ndarray, w: np.ndarray, a: np.ndarray) -> float:
        found, end = 0.0, total
        while True:
            begin = max(0, end - trips)
            values = counted(x if begin == 0 else frozen[begin], w, a, begin, end)
            found += float(y @ values[-1]) if end == total else 0.0
            rows = zip(values[:-1], values[1:], s[begin:end], strict=True)
            found += float(sum(row @ (v * u) for v, u, row in rows))
            if begin == 0:
                return found
            end = begin

    return evaluate


def differences(function: Callable[..., float], *point: np.ndarray) -> list[np.ndarray]:
    """Return central differences of the fourth order for every element of every argument."""
    found = []
    for index, value in enumerate(point):
        slopes = np.zeros(value.shape)
        for place in np.ndindex(value.shape):

            def along(step: float, index: int = index, place: Any = place) -> float:
                moved = [each.copy() for each in point]
                moved[index][place] += step
                return function(*moved)

            steps = (along(1e-3), along(-1e-3), along(2e-3), along(-2e-3))
            slopes[place] = (8 * (steps[0] - steps[1]) - (steps[2] - steps[3])) / 12e-3
        found.append(slopes)
    return found


def judge(text: str, total: int, trips: int, with_rows: bool, memory: Memory = None) -> None:
    rng = np.random.default_rng(total)
    model = parse(text)
    is_scan = "Scan" in text
    a = (
        rng.normal(size=(total, 2))
        if is_scan
        else np.repeat(np.arange(float(total)), 2).reshape(-1, 2)
    )
    y, s = rng.normal(size=2), rng.normal(size=(total, 2)) * with_rows
    of, wrt = ["y", "s"] if with_rows else ["y"], ["x", "w", "a"] if is_scan else ["x", "w"]
    given: dict[str, Any] = {"a": a[::-1].T.copy()} if is_scan else {"M": total}
    given |= {"x": X, "w": W}
    arguments = given | {"y_grad": y} | ({"s_grad": s[::-1] if is_scan else s} if with_rows else {})
    run = compile(vjp(model, of, wrt, truncate=trips, memory=memory))(arguments)
    for name, value in compile(model)(given).items():
        assert value.size == run[name].size == 0 or np.array_equal(value, run[name])
    evaluate = truncated_sum(counted(X, W, a, 0, total), trips, y, s)
    expected = (
        differences(evaluate, X, W, a)
        if is_scan
        else differences(lambda x, w: evaluate(x, w, a), X, W)
    )
    if is_scan:
        expected[2] = expected[2][::-1].T
    for name, slope in zip(wrt, expected, strict=False):
        np.testing.assert_allclose(run[f"{name}_grad"], slope, atol=1e-9)


@pytest.mark.parametrize("with_rows", [False, True])
@pytest.mark.parametrize(
    ("total", "trips"), [(0, 1), (1, 1), (3, 1), (3, 3), (3, 5), (7, 3), (7, 6), (8, 2), (9, 3)]
)
@pytest.mark.parametrize("text", [COUNTED, ENDED_BY_A_CONDITION, SCAN])
def test_segments_are_counted_from_the_end(
    text: str, total: int, trips: int, with_rows: bool
) -> None:
    if total or text is not SCAN:  # ONNX Runtime refuses a Scan over no rows
        judge(text, total, trips, with_rows)


def test_thousands_of_trips() -> None:
    judge(COUNTED, 4000, 7, True)


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
def test_what_is_kept_of_a_segment_is_chosen_as_always(memory: Memory) -> None:
    judge(COUNTED, 11, 4, True, memory)


@pytest.mark.parametrize("total", [7, 3])
def test_known_numbers_of_trips_need_no_choice(total: int) -> None:
    text = SCAN.replace("T]", f"{total}]").replace("[T", f"[{total}")
    judge(text, total, 3, True)
    model = vjp(parse(text), ["y", "s"], ["x", "w"], truncate=3)
    made = [node.op_type for node in model.graph if node.op_type in ("If", "Scan")]
    assert made == (["Scan"] * 4 if total == 7 else ["Scan"] * 2)


def test_only_the_last_segment_is_kept() -> None:
    """Where only the last value is differentiated, nothing before is kept or run again."""
    text = COUNTED.replace("int64 M, ", "", 1).replace(
        "  y, s", "  M = Constant<value_int = 1000>()\n  y, s", 1
    )
    model = vjp(parse(text), "y", "w", truncate=10)
    before, last = [loop_view(node) for node in model.graph if node.op_type == "Loop"]
    assert (len(before.scan_outputs), len(last.scan_outputs)) == (1, 2)
    assert known_ints(last.limit) == [10]
    assert [is_loop(node) for node in walk(model.graph)].count(True) == 4


NESTED = """(int64 M, int64 K, double[2] x) => (double[2] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, double[2] v) => (bool d, double[2] u) {
    d = Identity(c)
    t = Loop(K, , v) <body = e (int64 j, bool f, double[2] p) => (bool g, double[2] q) {
      g = Identity(f)
      h = Add(p, x)
      q = Sin(h)
    }>
    u = Mul(t, x)
  }>
}"""


@pytest.mark.parametrize(
    ("truncate", "inner", "outer"), [({"t": 2}, 2, 9), ({"y": 2}, 9, 2), (2, 2, 2)]
)
def test_loops_in_loops(truncate: Any, inner: int, outer: int) -> None:
    """Against a loop written out, in which copies marked so stop the gradient."""
    lines, value = [], "x"
    for i in range(3):
        if i == 3 - outer:
            lines.append(f"stop{i} = Identity({value})")
            value = f"stop{i}"
        for j in range(5):
            if j and (5 - j) % inner == 0:
                lines.append(f"stop{i}{j} = Identity({value})")
                value = f"stop{i}{j}"
            lines.append(f"h{i}{j} = Add({value}, x) q{i}{j} = Sin(h{i}{j})")
            value = f"q{i}{j}"
        lines.append(f"u{i} = Mul({value}, x)")
        value = f"u{i}"
    unrolled = parse(
        f"(double[2] x) => (double[2] y) {{ {' '.join(lines)} y = Identity({value}) }}"
    )
    for node in unrolled.graph:
        if node.op_type == "Identity" and node.outputs[0].name != "y":
            node.metadata_props[STANDS_FOR] = "StopGradient"
    seed = {"x": X, "y_grad": np.array([1.0, 2.0]), "x_grad_grad": np.array([2.0, -1.0])}
    models = vjp(parse(NESTED), "y", "x", truncate=truncate), vjp(unrolled, "y", "x")
    second = [vjp(model, "x_grad", ["x", "y_grad"]) for model in models]
    run, expected = compile(second[0])(M=3, K=5, **seed), compile(second[1])(seed)
    for name in ("x_grad", "x_grad_1", "y_grad_grad"):
        np.testing.assert_allclose(run[name], expected[name], rtol=1e-12)


def test_in_a_branch() -> None:
    text = """(bool up, int64 M, double[2] x) => (double[2] y) {
      y = If(up) <
        then_branch = then () => (double[2] p) {
          p = Loop(M, , x) <body = b (int64 i, bool c, double[2] v) => (bool d, double[2] u) {
            d = Identity(c)
            u = Mul(v, x)
          }>
        },
        else_branch = other () => (double[2] q) { q = Sin(x) }
      >
    }"""
    run = compile(vjp(parse(text), "y", "x", truncate=3))
    # Of x⁶ the last three factors count, of x⁴ with T = 3 all.
    for up, trips, slope in ((True, 5, 3 * X**5), (True, 3, 4 * X**3), (False, 5, np.cos(X))):
        gradient = run(up=up, M=trips, x=X, y_grad=[1, 1])["x_grad"]
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


GROWING = """(int64 M, double[2] x) => (double[N] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, double[K] v) => (bool d, double[L] u) {
    d = Identity(c)
    h = Sin(v)
    u = Concat<axis = 0>(h, x)
  }>
}"""
SEQUENCE = """(int64 M, double[2] x) => (double[N] y) {
  start = SequenceConstruct(x)
  q = Loop(M, , start)
      <body = b (int64 i, bool c, seq(double[2]) v) => (bool d, seq(double[2]) u) {
    d = Identity(c)
    last = Constant<value_int = -1>()
    h = SequenceAt(v, last)
    k = Mul(h, x)
    u = SequenceInsert(v, k)
  }>
  y = ConcatFromSequence<axis = 0>(q)
}"""


@pytest.mark.parametrize(("trips", "kept"), [(2, 2), (3, 3), (4, 5), (7, 5)])
def test_values_that_grow(trips: int, kept: int) -> None:
    """Of x, sin x, sin sin x … those that the last trips have appended have a gradient."""
    run = compile(vjp(parse(GROWING), "y", "x", truncate=trips))(M=4, x=X, y_grad=np.ones(10))
    slope, value, expected = np.ones(2), X, np.zeros(2)
    for _ in range(kept):
        expected, slope, value = expected + slope, slope * np.cos(value), np.sin(value)
    np.testing.assert_allclose(run["x_grad"], expected, rtol=1e-12)


@pytest.mark.parametrize(("trips", "frozen"), [(1, 4), (2, 3), (3, 2), (4, 0), (7, 0)])
def test_sequences(trips: int, frozen: int) -> None:
    """Of x, x² … x⁵ the first ones are frozen, and in the others they are."""
    run = compile(vjp(parse(SEQUENCE), "y", "x", truncate=trips))(M=4, x=X, y_grad=np.ones(10))
    powers = range(frozen + 1, 6)
    expected = sum((power - frozen) * X ** (power - 1) for power in powers)
    np.testing.assert_allclose(run["x_grad"], expected, rtol=1e-12)


def test_draws_are_the_same_in_both_directions() -> None:
    text = """(int64 M, float[2] x) => (float[2] y, float[T,2] s) {
      y, s = Loop(M, , x)
        <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u, float[2] r) {
        d = Identity(c)
        e = RandomNormal<shape = [2]>()
        u = Mul(v, e)
        r = Identity(e)
      }>
    }"""
    model = vjp(parse(text), "y", "x", truncate=5)
    run = compile(model)(M=5, x=[1, 2], y_grad=[1, 1])
    np.testing.assert_allclose(run["x_grad"], np.prod(run["s"], axis=0), rtol=1e-5)
    np.testing.assert_allclose(run["y"], [1, 2] * np.prod(run["s"], axis=0), rtol=1e-5)
    assert compile(model)(M=6, x=[1, 2], y_grad=[1, 1])["x_grad"].tolist() == [0, 0]


def test_a_loop_that_carries_nothing_stays_as_it_is() -> None:
    text = """(float[T] x) => (float[T] y) {
      y = Scan<num_scan_inputs = 1, body = b (float p) => (float q) { q = Sin(p) }>(x)
    }"""
    before, after = (vjp(parse(text), "y", "x", truncate=each) for each in (None, 2))
    assert ir.to_proto(before) == ir.to_proto(after)


@pytest.mark.parametrize(
    ("truncate", "expected"),
    [
        (0, "truncate=0: give a whole number of trips from 1 on."),
        ({"y": 2.5}, "truncate=2.5: give a whole number of trips from 1 on."),
        (
            {"z": 2},
            "truncate= names 'z', but no loop of the model has that name or an output of that "
            "name; there are 3: 'Loop', 'y', 's'",
        ),
        ({"y": 2, "s": 3}, "truncate= names loop 'Loop' twice, once as 's': name it once."),
    ],
)
def test_what_is_refused(truncate: Any, expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        vjp(parse(COUNTED), "y", "x", truncate=truncate)
    assert str(error.value) == expected
