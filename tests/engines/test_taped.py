"""The two parts of a gradient make the gradient, which finite differences judge."""

import numpy as np
import pytest
from tests.judge import parse

from whileback.checking.finite_differences import derivative
from whileback.engines import compile
from whileback.engines.taped import Taped

LOOP = """(double[N,2] x, double[2,2] w, int64 n, bool flip) => (double[N,2] y, double s) {
    t = Loop(n, "", x) <body = trip (int64 i, bool c, double[N,2] v) => (bool d, double[N,2] z) {
        d = Identity(c)
        p = MatMul(v, w)
        z = Tanh(p)
    }>
    y = If (flip) <then_branch = a () => (double[N,2] m) { m = Neg(t) },
                   else_branch = b () => (double[N,2] k) { k = Mul(t, t) }>
    e = Mul(y, y)
    s = ReduceSum<keepdims=0>(e)
}"""
OF, WRT = ("y", "s"), ("x", "w")


@pytest.fixture(scope="module", params=["onnxruntime", "xla"])
def taped(request: pytest.FixtureRequest) -> Taped:
    return Taped(parse(LOOP), OF, WRT, lambda model: compile(model, request.param))


@pytest.mark.parametrize(("trips", "flip"), [(0, True), (3, False), (4, True)])
def test_gradients(taped: Taped, trips: int, flip: bool) -> None:
    draw = np.random.default_rng(0)
    point = {"x": draw.normal(size=(3, 2)), "w": draw.normal(size=(2, 2))}
    along = {name: draw.normal(size=array.shape) for name, array in point.items()}
    seeds = {"y": draw.normal(size=(3, 2)), "s": np.float64(0.7)}
    rest = {"n": np.int64(trips), "flip": np.array(flip)}

    def projected(step: float) -> float:
        moved = {name: point[name] + step * along[name] for name in point}
        out, _ = taped.forward({**moved, **rest})
        return float(sum(np.sum(out[name] * seeds[name]) for name in OF))

    out, tape = taped.forward({**point, **rest})
    got = taped.backward({**point, **rest, **out}, tape, seeds)
    want = derivative(projected, projected(0.0))
    slope = sum(np.sum(got[name] * along[name]) for name in WRT)
    assert [*got] == [*WRT]
    assert slope == pytest.approx(want.value, abs=max(want.error, 1e-9))


def test_what_is_kept() -> None:
    taped = Taped(
        parse("(float[N] x) => (float[N] y, float[N] z) { y = Tanh(x) z = Exp(x) }"),
        ["y", "z"],
        ["x"],
        compile,
    )
    out, tape = taped.forward({"x": np.zeros(2, np.float32)})
    assert taped.kept == ["y", "z"] and [*out] == ["y", "z"] and not tape


def test_a_sequence_is_kept() -> None:
    """y = Σ exp(x[i])² over all i but k, and part of the tape is no array."""
    model = parse("""(float[4] x, int64 k) => (float y) {
        e = Exp(x)
        s = SplitToSequence<axis=0, keepdims=0>(e)
        q = SequenceErase(s, k)
        c = ConcatFromSequence<axis=0, new_axis=1>(q)
        y = ReduceSumSquare<keepdims=0>(c)
    }""")
    taped = Taped(model, ["y"], ["x"], compile)
    given = {"x": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "k": np.int64(2)}
    out, tape = taped.forward(given)
    assert any(isinstance(kept, list) for kept in tape.values())
    got = taped.backward({**given, **out}, tape, {"y": np.float32(1)})["x"]
    np.testing.assert_allclose(got, 2 * np.exp(2 * given["x"]) * [1, 1, 0, 1], 1e-5)
