import numpy as np
import onnx_ir as ir
import pytest

from whileback.checking.compare import compare_arithmetic, compare_formulas, rounding_of_constants
from whileback.checking.finite_differences import Derivative
from whileback.checking.point import Slope


def slopes(*derivatives):
    directions = np.eye(len(derivatives))
    return [
        Slope(f"[{i}]", directions[i], Derivative(*derivative))
        for i, derivative in enumerate(derivatives)
    ]


def badness(known, gradient):
    return [each.badness for each in compare_formulas(known, np.array(gradient))]


def test_the_scale_is_that_of_the_largest_element():
    known = slopes((1.0, 0.0), (1e-8, 0.0))
    assert max(badness(known, [1.0 + 9e-7, 1e-8])) < 1
    assert badness(known, [1.0 + 2e-6, 1e-8])[0] > 1
    assert badness(known, [1.0, 2e-6])[1] > 1


def test_the_error_of_the_differences_is_allowed_for():
    assert badness(slopes((1.0, 1e-3)), [1.001])[0] < 1
    assert badness(slopes((1.0, 1e-3)), [1.01])[0] > 1


def test_differences_that_say_little_count_as_kinks():
    for known in ((1.0, 0.5, False, 0.5, 1.5), (np.nan, np.inf, True, np.nan, 1.0)):
        (compared,) = compare_formulas(slopes(known), np.array([1.0]))
        assert compared.kink and not compared.is_blind and compared.badness == 0
        (compared,) = compare_formulas(slopes(known), np.array([np.inf]))
        assert compared.badness == np.inf


def test_differences_that_say_nothing_are_told_apart_from_kinks():
    for got in (1.0, np.inf, np.nan):
        (compared,) = compare_formulas(slopes((np.nan, np.inf, True)), np.array([got]))
        assert compared.is_blind and compared.badness == 0


def test_a_gradient_that_is_not_a_number_does_not_hide_the_others():
    assert badness(slopes((1.0, 0.0), (2.0, 0.0)), [np.nan, 2.0]) == [np.inf, 0.0]
    assert badness(slopes((1.0, 0.0), (2.0, 0.0)), [np.inf, 3.0])[1] > 1


@pytest.mark.parametrize(
    ("dtype", "fine", "wrong"),
    [("float64", 1e-10, 1e-8), ("float32", 1e-5, 1e-4), ("float16", 1e-2, 5e-2)],
)
def test_rounding_by_type(dtype, fine, wrong):
    exact = np.array([1.0, 0.5])
    for error, ok in ((fine, True), (wrong, False)):
        own = np.array([1.0, 0.5 + error]).astype(dtype)
        compared = compare_arithmetic(own, exact, [exact])
        assert (compared.badness <= 1) == ok
        assert compared.where == "[1]" or dtype == "float16"


def test_noise_of_the_inputs_is_allowed_for():
    own, exact = np.float32([1.0, 0.51]), np.array([1.0, 0.5])
    assert compare_arithmetic(own, exact, [exact]).badness > 1
    assert compare_arithmetic(own, exact, [np.array([1.002, 0.5])]).badness < 1


def test_values_that_are_no_numbers():
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    exact = np.array([1.0, np.inf, np.nan])
    assert compare_arithmetic(np.float32([1.0, inf, nan]), exact, [exact]).badness == 0
    assert compare_arithmetic(np.float32([1.0, 3.0, nan]), exact, [exact]).badness == np.inf
    assert compare_arithmetic(np.float32([nan, inf, nan]), exact, [exact]).badness == np.inf
    assert compare_arithmetic(np.float32([]), np.array([]), [np.array([])]).badness == 0


@pytest.mark.parametrize(
    ("dtype", "part"), [("float64", 0.0), ("float16", 2e-4), ("bfloat16", 2e-3)]
)
def test_a_third_is_rounded_as_a_constant(dtype, part):
    dtype = ir.DataType[{"float64": "DOUBLE"}.get(dtype, dtype.upper())].numpy()
    third = float(np.array(1 / 3, dtype)) * 3
    assert part / 4 <= abs(third - 1) <= rounding_of_constants(dtype) < 20 * part + 2e-6


def test_numbers_next_to_zero_are_rounded() -> None:
    """FLOAT16 has nothing between 2 and 3 times 2^-24."""
    smallest = 2.0**-24
    own, exact = np.array([3, 1], np.float16) * np.float16(smallest), np.array([2.6, 1]) * smallest
    found = compare_arithmetic(own, exact, [exact, exact])
    assert found.error <= found.tolerance < 2 * smallest
