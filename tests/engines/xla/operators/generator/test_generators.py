"""Tensors made of shapes and of chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.engines.xla.operators.agreement import assert_agrees
from tests.engines.xla.operators.stacks import assert_takes_rows
from tests.judge import parse

from whileback.engines import compile


def test_fills_shapes() -> None:
    text = """(int64 shape) => (float Y, int32 Z) {
        Y = ConstantOfShape(shape) Z = ConstantOfShape<value = int32[1] {7}>(shape)
    }"""
    assert_agrees(text, {"shape": np.int64([2, 3])})
    assert_agrees(text, {"shape": np.int64([])})
    assert_agrees(text, {"shape": np.int64([0, 4])})
    assert_agrees(text, {"shape": np.int64([40, 50])})


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_makes_diagonals(k: int) -> None:
    text = (
        f"(float X) => (float Y, int64 Z) {{ Y = EyeLike<k = {k}>(X) Z = EyeLike<dtype = 7>(X) }}"
    )
    assert_agrees(text, {"X": np.zeros((3, 4), np.float32)})


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("int64", [0, 10, 3]),
        ("int32", [10, 0, -3]),
        ("float", [1, 2, 0.25]),
        ("double", [1, 0, 0.5]),
        ("int64", [3, 3, 1]),
    ],
)
def test_counts(kind: str, numbers: list[float]) -> None:
    dtype = {"float": np.float32, "double": np.float64}.get(kind, kind)
    text = f"({kind} a, {kind} b, {kind} c) => ({kind} Y) {{ Y = Range(a, b, c) }}"
    inputs = {name: np.array(x, dtype) for name, x in zip("abc", numbers, strict=True)}
    assert_agrees(text, inputs)
    known = ", ".join(f"{kind} {name} = {{{x}}}" for name, x in zip("abc", numbers, strict=True))
    assert_agrees(
        f"(float Z) => ({kind} Y) <{known}> {{ Y = Range(a, b, c) }}",
        {"Z": np.zeros(1, np.float32)},
    )


def test_counts_rows() -> None:
    assert_takes_rows(["ConstantOfShape(shape)", "Range(nothing, size, step)"])


def _draw(text: str, **inputs: np.ndarray) -> list[list[np.ndarray]]:
    compiled = compile(parse(text), engine="xla")
    return [list(compiled(inputs).values()) for _ in range(2)]


def test_draws_what_was_asked_for() -> None:
    text = """(float[n] X) => (float[8000] A, float[n] B, double[8000] C, float16[n] D) {
        A = RandomNormal<shape = [8000], mean = 3.0, scale = 2.0>()
        B = RandomUniformLike<low = -1.0, high = 4.0>(X)
        C = RandomUniform<shape = [8000], dtype = 11>()
        D = RandomNormalLike<dtype = 10>(X)
    }"""
    (A, B, C, D), others = _draw(text, X=np.zeros(8000, np.float32))
    laws = [stats.norm(3, 2), stats.uniform(-1, 5), stats.uniform(0, 1), stats.norm(0, 1)]
    for numbers, other, law in zip([A, B, C, D], others, laws, strict=True):
        assert stats.kstest(numbers.astype(np.float64), law.cdf).pvalue > 1e-6
        assert not np.array_equal(numbers, other)
    assert [numbers.dtype for numbers in (A, B, C, D)] == [
        "float32",
        "float32",
        "float64",
        "float16",
    ]


def test_draws_the_same_by_a_seed() -> None:
    text = """() => (float[5] A, float[5] B, float[5] C) {
        A = RandomNormal<shape = [5], seed = 1.5>()
        B = RandomNormal<shape = [5], seed = 1.25>()
        C = RandomNormal<shape = [5]>()
    }"""
    (A, B, C), (again, _, other) = _draw(text)
    np.testing.assert_array_equal(A, again)
    assert not np.array_equal(A, B)
    assert not np.array_equal(C, other)


@pytest.mark.parametrize("seed", ["", "<seed = 2.0>"])
def test_draws_anew_in_each_trip(seed: str) -> None:
    text = f"""(int64 trips, float[3] X) => (float[t, u, 3] Y) <bool yes = {{1}}> {{
        Y = Loop(trips, yes) <body = outer (int64 k, bool c) => (bool d, float[u, 3] y) {{
            d = Identity(c)
            y = Loop(trips, yes) <body = inner (int64 j, bool e) => (bool f, float[3] r) {{
                f = Identity(e)
                r = RandomUniformLike{seed}(X)
            }}>
        }}>
    }}"""
    (Y,), (again,) = _draw(text, trips=np.array(4), X=np.zeros(3, np.float32))
    assert len(np.unique(Y)) == 4 * 4 * 3
    assert np.array_equal(Y, again) == bool(seed)


def test_draws_classes() -> None:
    text = (
        "(float[2, 3] X) => (int64[2, k] Y) { Y = Multinomial<dtype = 7, sample_size = 6000>(X) }"
    )
    weights = np.array([[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]])
    with np.errstate(divide="ignore"):
        (Y,), _ = _draw(text, X=np.log(weights).astype(np.float32))
    found = np.stack([np.bincount(row, minlength=3) for row in Y]) / 6000
    np.testing.assert_allclose(found, weights, atol=0.04)


def test_draws_truth_values() -> None:
    (Y,), _ = _draw(
        "(float[n] X) => (float[n] Y) { Y = Bernoulli(X) }", X=np.full(6000, 0.3, np.float32)
    )
    assert set(Y) == {0, 1}
    assert abs(Y.mean() - 0.3) < 0.04


DROPOUT = """(float[n] X, float ratio, bool training) => (float[n] Y, bool[n] mask) {
    Y, mask = Dropout(X, ratio, training)
}"""


def test_drops_while_training() -> None:
    X = np.ones(6000, np.float32)
    (Y, mask), (other, _) = _draw(DROPOUT, X=X, ratio=np.float32(0.75), training=np.array(True))
    np.testing.assert_array_equal(Y, np.where(mask, np.float32(4), 0))
    assert abs(mask.mean() - 0.25) < 0.04
    assert not np.array_equal(Y, other)


@pytest.mark.parametrize(("ratio", "training"), [(0.75, False), (0.0, True)])
def test_drops_nothing(ratio: float, training: bool) -> None:
    X = np.arange(5, dtype=np.float32)
    (Y, mask), _ = _draw(DROPOUT, X=X, ratio=np.float32(ratio), training=np.array(training))
    np.testing.assert_array_equal(Y, X)
    assert mask.all()
