"""Finds the element at which a gradient is wrong along a direction, by halving the direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whileback.checking.compare import compare_formulas
from whileback.checking.point import Point, Slope
from whileback.checking.report import Comparison, Finding

__all__ = ["narrowed"]


def narrowed(
    finding: Finding, point: Point, slopes: Sequence[Slope], gradient: np.ndarray
) -> Finding:
    """Return the finding with an element in place of the direction along which it is wrong.

    It stays as it is if it names an element already, or if no single element is wrong.
    """
    worst = finding.worst
    if worst is None or not finding.wrong:
        return finding
    for slope in slopes:
        if slope.where == worst.where and np.count_nonzero(slope.direction) > 1:
            found = _element(point, finding.name, slope.direction, gradient)
            return replace(finding, worst=found if found.badness > 1 else worst)
    return finding


def _element(point: Point, name: str, direction: np.ndarray, gradient: np.ndarray) -> Comparison:
    """Halve the direction, each time into the half that is farther off, down to one element."""
    gradient = gradient.astype(np.float64)
    while np.count_nonzero(direction) > 1:
        places = np.flatnonzero(direction)
        halves = [_only(direction, part) for part in np.array_split(places, 2)]
        direction = max(halves, key=lambda half: _compared(point, name, half, gradient).error)
    return _compared(point, name, np.sign(np.abs(direction)), gradient)


def _only(direction: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the direction with zeros at all but some places of its flat form."""
    kept = np.zeros_like(direction)
    kept.flat[places] = direction.flat[places]
    return kept


def _compared(point: Point, name: str, direction: np.ndarray, gradient: np.ndarray) -> Comparison:
    (comparison,) = compare_formulas([point.along(name, direction)], gradient)
    return comparison
