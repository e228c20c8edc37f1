"""What is known of numbers that only a run can tell, on which shapes depend.

Each element of a small array of integers is a sum of a constant and multiples of *terms*: the
elements of other arrays, or the number of rows of a stack. So `X[i : i + 2]` has two rows whatever
`i` is, and `[count, 3, 4]` is a shape of which all but one size is known. What is known of a
result is what its lowering makes of arrays of such sums, which are arrays of objects of NumPy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.rows import Rows

__all__ = ["FOLLOWED", "CountOf", "Growth", "Linear", "Numbers", "is_number"]

_MOST = 32

# Operators that add up, multiply or move numbers, and which operands these are.
FOLLOWED: Mapping[str, slice] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Neg", "Concat"), slice(None)),
    **dict.fromkeys(("Gather", "Identity", "Reshape", "Slice", "Split"), slice(1)),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), slice(1)),
    "ScatterElements": slice(0, 3, 2),
}


class CountOf:
    """The number of rows of a stack, as a term."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountOf) and self.rows.count is other.rows.count

    def __hash__(self) -> int:
        return id(self.rows.count)


@dataclass(frozen=True)
class Linear:
    """constant + Σ factor·term."""

    constant: int
    factors: frozenset[tuple[Hashable, int]]

    @classmethod
    def of(cls, term: Hashable) -> Linear:
        """Return a term alone."""
        return cls(0, frozenset({(term, 1)}))

    @property
    def term(self) -> Hashable | None:
        """Return the term that this is, if it is one alone."""
        if self.constant == 0 and len(self.factors) == 1:
            ((term, factor),) = self.factors
            return term if factor == 1 else None
        return None

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Linear):
            return Linear(self.constant + int(other), self.factors)
        factors = dict(self.factors)
        for term, factor in other.factors:
            factors[term] = factors.get(term, 0) + factor
        return _plain(self.constant + other.constant, factors)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Linear):
            return Linear.of(frozenset({self, other}))
        factors = {term: factor * int(other) for term, factor in self.factors}
        return _plain(self.constant * int(other), factors)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other


def _plain(constant: int, factors: Mapping[Hashable, int]) -> Linear | int:
    """Return the sum, as an integer if it has no terms."""
    left = frozenset((term, factor) for term, factor in factors.items() if factor)
    return Linear(constant, left) if left else constant


@dataclass(frozen=True)
class Growth:
    """Rows that are the same in all trips, or integers that grow by as much in each."""

    first: np.ndarray
    step: np.ndarray | None = None

    def stack(self, trips: int) -> np.ndarray:
        """Return the rows of so many trips."""
        rows = np.broadcast_to(self.first, (trips, *self.first.shape))
        if self.step is None:
            return rows
        numbers = np.arange(trips).reshape(-1, *(1,) * self.first.ndim)
        grown: np.ndarray = rows + numbers * self.step
        return grown.astype(rows.dtype)


@dataclass
class Numbers:
    """The traced integers of a program, by what is known of them."""

    _known: dict[int, tuple[Any, np.ndarray]] = field(default_factory=dict)

    def of(self, value: Any) -> np.ndarray:
        """Return what is known of each element, as an array of objects."""
        if isinstance(value, np.ndarray):
            return value.astype(object)
        if id(value) not in self._known:
            terms = np.empty(value.shape, object)
            for place in np.ndindex(*value.shape):
                terms[place] = Linear.of((id(value), place))
            self.note(value, terms)
        return self._known[id(value)][1]

    def note(self, value: Any, elements: Any) -> None:
        """Note what is known of a value; the value is kept, since only its identity tells it."""
        self._known[id(value)] = value, np.asarray(elements, object).reshape(value.shape)

    def note_row(self, row: Any, stack: np.ndarray, place: Any) -> None:
        """Note of the row of a stack, if its integers grow by as much from each row to the next."""
        steps = np.diff(stack.astype(object), axis=0)
        if is_number(row) and len(steps) and (steps == steps[0]).all():
            self.note(row, stack[0].astype(object) + steps[0] * self.of(place).item())

    def growth(self, row: Any, trip: Any) -> Growth | None:
        """Return what is known of a row in all trips, if it depends on nothing but their number."""
        if isinstance(row, np.ndarray):
            return Growth(row)
        if not is_number(row):
            return None
        known, term = self.of(row), self.of(trip).item().term
        first, step = np.zeros(row.shape, row.dtype), np.zeros(row.shape, np.int64)
        for place in np.ndindex(*row.shape):
            number = known[place]
            if not isinstance(number, Linear):
                first[place] = number
                continue
            ((only, factor), *others) = number.factors
            if others or only != term:
                return None
            first[place], step[place] = number.constant, factor
        return Growth(first, step)

    def operands(self, op_type: str, operands: Sequence[Any]) -> list[Any] | None:
        """Return the operands of a node by what is known of them, or None if that says nothing."""
        followed = range(len(operands))[FOLLOWED.get(op_type, slice(0))]
        known = list(operands)
        for place, operand in enumerate(operands):
            if place in followed and is_number(operand):
                known[place] = self.of(operand)
            elif place in followed or isinstance(operand, jax.Array):
                return None
        return known if followed else None


def is_number(value: Any) -> bool:
    """Tell whether this is a small array of integers."""
    return (
        isinstance(value, (np.ndarray, jax.Array))
        and 0 < value.size <= _MOST
        and jnp.issubdtype(value.dtype, jnp.integer)
    )
