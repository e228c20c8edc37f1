import math

import numpy as np
import pytest

from whileback.checking.finite_differences import derivative as derivative_at
from whileback.checking.finite_differences import size_of_terms


def derivative(function, **options):
    return derivative_at(function, function(0.0), **options)


SMOOTH = [
    (lambda t: math.exp(0.3 + t), math.exp(0.3)),
    (lambda t: math.sin(5 * t), 5.0),
    (lambda t: (1 + t) ** 7, 7.0),
    (lambda t: 1e6 * t * t + t, 1.0),
    (lambda t: 3.0, 0.0),
    (lambda t: 1e-8 * math.cos(1 + t), -1e-8 * math.sin(1)),
    (lambda t: math.sin(1000 * t), 1000.0),
    (lambda t: math.log(1e-3 + t) if t > -1e-3 else math.nan, 1000.0),
]


@pytest.mark.parametrize(("function", "want"), SMOOTH)
def test_smooth_functions(function, want):
    got = derivative(function)
    assert not got.kink
    assert abs(got.value - want) <= 2 * got.error
    assert got.error <= 1e-6 * max(abs(want), abs(function(0.0)))


def test_rounding_is_part_of_the_error():
    noise = np.random.default_rng(0)
    got = derivative(lambda t: 1e9 + t + 1e-7 * noise.normal(), size=1e9)
    assert abs(got.value - 1) <= got.error
    assert got.error > 1e-6


@pytest.mark.parametrize(
    "function",
    [
        abs,
        lambda t: max(t, 0.0),
        lambda t: max(t, 0.0) + math.exp(t),
        lambda t: 1.0 if t > 0 else 0.0,
        np.sign,
        lambda t: math.exp(t) + float(np.sign(t)),
        lambda t: math.sqrt(abs(t)),
        lambda t: 1 / t if t else math.inf,
        lambda t: math.nan,
        lambda t: math.nan if t < 0 else t,
    ],
)
def test_kinks_and_jumps_are_flagged(function):
    assert derivative(function).kink


def test_a_kink_close_by_is_stepped_around():
    got = derivative(lambda t: 2 * t + max(t - 2e-4, 0.0))
    assert not got.kink
    assert got.value == pytest.approx(2, abs=1e-8)


def test_enough_saves_evaluations():
    calls = []
    derivative(lambda t: calls.append(t) or math.exp(t), enough=1e-6)
    assert len(calls) == 5


def test_kinks_close_by_are_not_taken_for_rounding():
    def function(t):
        return 1.0 + max(t - 3e-5, 0.0) - 5 * min(t + 1.3e-5, 0.0)

    assert size_of_terms(function, 1.0) < 10


def test_curvature_is_not_taken_for_rounding():
    def function(t):
        return 1.0 + math.sin(2000 * t)

    size = size_of_terms(function, 1.0)
    assert size < 1e4
    got = derivative(function, size=size)
    assert abs(got.value - 2000) <= 2 * got.error < 1e-3


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda t: math.sqrt(t) if t >= 0 else math.nan, math.inf),
        (lambda t: math.acosh(1 + t) if t >= 0 else math.nan, math.inf),
        (lambda t: t**0.8 + math.sin(t) if t >= 0 else math.nan, math.inf),
        (lambda t: math.acos(1 + t) if t <= 0 else math.nan, -math.inf),
        (lambda t: -(t**0.8) if t >= 0 else math.nan, -math.inf),
        (lambda t: math.nan if t < 0 else t, math.nan),
        (lambda t: math.nan if t < 0 else math.sin(100 * t), math.nan),
        (lambda t: math.nan if t < 0 else float(t > 0), math.nan),
    ],
)
def test_a_root_that_ends_has_an_infinite_slope(function, want):
    got = derivative(function)
    assert got.kink
    np.testing.assert_equal(got.value, want)
