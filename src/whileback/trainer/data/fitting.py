"""Whether an array fits an input, and what makes it fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whileback.engines.arguments import Port, bind
from whileback.errors import ArgumentError

__all__ = ["Constant", "Fit", "fit", "fit_constant"]

Dims = tuple[int | str | None, ...]


@dataclass(frozen=True)
class Fit:
    """An array whose rows an input reads.

    Attributes:
        array: as the data has it.
        said: its name, for messages.
        dtype: of the input.
        shape: of a row, as the input wants it; None for that of the array.
        axis: of the input, along which the examples are.
        batch: how many rows a batch has, None for any number.
        note: what is converted, if anything is.
    """

    array: np.ndarray
    said: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = None
    axis: int = 0
    batch: int | None = None
    note: str = ""

    def converted(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the type and shape of the input.

        Raises: ArgumentError for a number that the type cannot hold.
        """
        if self.shape is not None:
            rows = rows.reshape(-1, *self.shape)
        if self.axis:
            rows = np.ascontiguousarray(np.moveaxis(rows, 0, self.axis))
        return rows if rows.dtype == self.dtype else self._cast(rows)

    def _cast(self, rows: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            result = rows.astype(self.dtype)
        whole = rows.dtype.kind in "iu" and self.dtype.kind in "iu"
        if whole and not np.array_equal(result, rows):
            wrong = rows[result != rows].flat[0]
            raise ArgumentError(
                f"{self.said} has {wrong}, which is no {self.dtype.name}. Correct the data."
            )
        return result


@dataclass(frozen=True)
class Constant:
    """What an input reads in every batch: an array, or a number that fills it.

    Attributes:
        array: with no axes if it fills.
        shape: which it fills, but for the batch; None for an array as it is.
        axis: of the input, along which the examples are.
    """

    array: np.ndarray
    shape: tuple[int, ...] | None = None
    axis: int = 0

    def of(self, count: int) -> np.ndarray:
        """Return what a batch of so many examples has."""
        if self.shape is None:
            return self.array
        shape = (*self.shape[: self.axis], count, *self.shape[self.axis :])
        return np.full(shape, self.array)


def fit(port: Port, array: np.ndarray, said: str, fills: bool, axis: int = 0) -> Fit:
    """Return how an input reads an array.

    Args:
        port: the input.
        array: [N, …], a row for each example.
        said: the array's name, for messages.
        fills: whether the numbers of a row may fill other axes than the array has.
        axis: of the input, along which the examples are.

    Raises: ArgumentError if the input cannot read it.
    """
    if port.kind != "tensor" or port.dtype is None or port.is_optional:
        raise ArgumentError(
            f"Input {port.name!r} is {port.text}, which is read of no file. Train with "
            "whileback.training.Run and batches of your own."
        )
    note = _converted(port, array, said)
    dims = port.dims
    rest = None if dims is None else _without(dims, axis)
    shape = _filled(rest, array) if fills else None
    row = array.shape[1:] if shape is None else shape
    if not array.ndim or dims == () or not _fits(rest, row):
        raise ArgumentError(_misfit(port, array, said, axis))
    batch = dims[axis] if dims else None
    return Fit(
        array, said, port.dtype, shape, axis, batch if isinstance(batch, int) else None, note
    )


def fit_constant(port: Port, value: Any, axis: int = 0) -> Constant:
    """Return how an input reads a constant: a single number fills it.

    Raises: ArgumentError if it does not fit.
    """
    fills = port.dims and port.dtype is not None and np.ndim(value) == 0
    if not fills or port.kind != "tensor":
        bound = bind("data", {port.name: port}, (), {port.name: value}, {})
        return Constant(np.asarray(bound[port.name]))
    assert port.dims is not None
    sizes = _without(port.dims, axis)
    shape = tuple(size for size in sizes if isinstance(size, int))
    if len(shape) < len(sizes):
        raise ArgumentError(
            f"Input {port.name!r} is {port.text}, and {value} cannot fill it: other sizes than "
            f"that of axis {axis}, along which examples are, are not known. Give an array, or "
            f"another axis (on the command line --axis {port.name}=AXIS)."
        )
    single = replace(port, dims=())
    return Constant(
        np.asarray(bind("data", {port.name: single}, (), {port.name: value}, {})[port.name]),
        shape,
        axis,
    )


def _converted(port: Port, array: np.ndarray, said: str) -> str:
    """Say what the type of an array becomes. Raises: ArgumentError if it cannot be that."""
    have, want = array.dtype, port.dtype
    assert want is not None
    if have == want or (have.kind in "SUO" and want.kind == "O"):
        return ""
    number = have.kind not in "SUO"
    fits = (have.kind in "biuf" and port.is_float) or (have.kind in "biu" and want.kind in "iu")
    if not fits:
        advice = f"Write it with astype({want.name!r})" if number else "Give an array of numbers"
        if want.kind == "O":
            advice = "Give text"
        why = ": that would lose digits" if have.kind == "f" and want.kind in "iub" else ""
        kind = have.name if number else "text"
        raise ArgumentError(
            f"{said} is {kind}, but input {port.name!r} is {port.text}{why}. {advice}, or name "
            "another array."
        )
    scaled = " as it is: nothing is scaled" if have == np.uint8 and port.is_float else ""
    return f"{said} is {have.name}, and becomes {want.name}{scaled}."


def _without(dims: Dims, axis: int) -> Dims:
    """Return the axes but for that of the examples."""
    return (*dims[:axis], *dims[axis + 1 :])


def _filled(rest: Dims | None, array: np.ndarray) -> tuple[int, ...] | None:
    """Return the fixed sizes of an example, if they have as many numbers as a row."""
    sizes = tuple(dim for dim in rest or () if isinstance(dim, int))
    if rest is None or len(sizes) < len(rest):
        return None
    return sizes if math.prod(sizes) == math.prod(array.shape[1:]) else None


def _fits(rest: Dims | None, row: tuple[int, ...]) -> bool:
    if rest is None or len(rest) != len(row):
        return rest is None
    return all(not isinstance(w, int) or w == have for w, have in zip(rest, row, strict=True))


def _misfit(port: Port, array: np.ndarray, said: str, axis: int) -> str:
    which = "first axis" if axis == 0 else f"axis {axis}"
    text = (
        f"{said} has shape {list(array.shape)}, but input {port.name!r} is {port.text}, whose "
        f"{which} is that of the examples. "
    )
    dims = port.dims or ()
    if len(dims) == 1 and array.shape[1:] == (1,):
        return f"{text}Drop the axis of 1: write it with [:, 0]."
    if not dims:
        return f"{text}It has none: give it as a constant (on the command line --input NAME=3.5)."
    for other in range(len(dims)):
        if other != axis and _fits(_without(dims, other), array.shape[1:]):
            return f"{text}If axis {other} is, say so with axes={{{port.name!r}: {other}}} " + (
                f"(on the command line --axis {port.name}={other})."
            )
    return f"{text}Change the shape of the array, or name another one."
