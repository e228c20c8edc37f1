"""Derivatives by differences, each with an estimate of its own error.

Central differences with one step of Richardson's extrapolation (L. F. Richardson, The Approximate
Arithmetical Solution by Finite Differences, 1911), over a ladder of steps; the best one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["Derivative", "derivative", "size_of_terms"]

_STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-2)
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Derivative:
    """A derivative, how far off it may be, and whether the function has a kink or jump there.

    `left` and `right` are the slopes on its two sides, which differ at a kink. Where the function
    ends, one of them is no finite number; where it has no numbers at all, neither is.
    """

    value: float
    error: float
    kink: bool = False
    left: float = math.nan
    right: float = math.nan

    def scaled(self, factor: float) -> Derivative:
        """Return the derivative along a direction that is so many times as long."""
        numbers = (self.value, self.error, self.left, self.right)
        value, error, left, right = (number * factor for number in numbers)
        return Derivative(value, error, self.kink, left, right)


def derivative(
    function: Callable[[float], float], middle: float, *, size: float = 0.0, enough: float = 0.0
) -> Derivative:
    """Return the derivative of the function at 0.

    Args:
        function: of one number, in float64; its natural scale is about 1.
        middle: its value at 0.
        size: the size of the terms that the function adds up, whose rounding shows in its value.
        enough: an error below this ends the search for a better step.
    """
    if not np.isfinite(middle):
        return Derivative(np.nan, np.inf, kink=True)
    size = max(size, abs(middle))
    best = Derivative(np.nan, np.inf, kink=True)
    for step in _STEPS:
        found = _at(function, middle, step, size)
        # A step across a kink may look sure of itself; finer ones know better.
        agrees = step < _STEPS[0] or abs(found.value - best.value) <= best.error
        if found.error < best.error and (agrees or not np.isfinite(best.error)):
            best = found
        if best.error <= enough:
            break
    return best if np.isfinite(best.value) else _at_an_end(function, middle)


def _at_an_end(function: Callable[[float], float], middle: float) -> Derivative:
    """Return what is known where the function has no numbers on one side, or on both."""
    step = 1e-6
    left, right = (middle - function(-step)) / step, (function(step) - middle) / step
    return Derivative(_tangent(function, middle), np.inf, True, left, right)


def _tangent(function: Callable[[float], float], middle: float) -> float:
    """Return an infinite slope if the function ends here and grows like a root, or else NaN.

    With steps a hundred times finer slopes grow a hundredfold at a jump, tenfold for a square root,
    and threefold for a power of 3/4.
    """
    for side in (1, -1):
        slopes = [(function(side * step) - middle) / (side * step) for step in (1e-4, 1e-6, 1e-8)]
        growth = [abs(fine / wide) if wide else 0.0 for wide, fine in pairwise(slopes)]
        if all(1.5 < factor < 30 for factor in growth):
            return float(np.copysign(np.inf, slopes[0]))
    return np.nan


def size_of_terms(function: Callable[[float], float], middle: float) -> float:
    """Return the size of what the function adds up, as the rounding of its values shows it.

    `1 - sigmoid(x)` may be tiny, and its last digit is that of 1. Over a few small steps a smooth
    function is as good as a parabola; what most of its values are off one is rounding, what a few
    are off may be a kink. What finer steps make smaller is no rounding: the function is curved.
    """
    size = math.inf
    for step in (5e-6, 5e-7, 5e-8):
        size = min(size, _off_a_parabola(function, middle, step) / _EPS)
        if size <= 100 * abs(middle):
            break
    return size


def _off_a_parabola(function: Callable[[float], float], middle: float, step: float) -> float:
    values = np.array([function(k * step) if k else middle for k in range(-8, 9)])
    with np.errstate(invalid="ignore"):
        off = np.abs(np.diff(values, 3)) / 2
    return float(3 * np.median(off)) if np.all(np.isfinite(off)) else 0.0


def _at(function: Callable[[float], float], middle: float, step: float, size: float) -> Derivative:
    """Differentiate with one step and its half."""
    (left, right), (near_left, near_right) = (
        ((middle - function(-h)) / h, (function(h) - middle) / h) for h in (step, step / 2)
    )
    wide, narrow = (left + right) / 2, (near_left + near_right) / 2
    value = narrow + (narrow - wide) / 3
    noise = 8 * _EPS * size / step
    error = abs(value - narrow) + noise
    if not np.isfinite(value):
        return Derivative(np.nan, np.inf, kink=True)
    # Between smooth sides the one-sided slopes approach each other in proportion to the step.
    gap, near_gap = abs(right - left), abs(near_right - near_left)
    kink = near_gap > 0.75 * gap and near_gap > 100 * noise + 1e-6 * abs(value)
    # At a jump, slopes double with steps of half the size; from its middle both sides do alike.
    jump = abs(narrow) > 1.5 * abs(wide) and abs(narrow - wide) > 100 * noise
    return Derivative(value, error, kink or jump, near_left, near_right)
