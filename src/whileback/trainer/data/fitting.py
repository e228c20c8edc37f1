"""Whether an array fits an input, and what makes it fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whileback.engines.arguments import Port, bind
from whileback.errors import ArgumentError

__all__ = ["Fit", "fit", "fit_constant"]


@dataclass(frozen=True)
class Fit:
    """An array whose rows an input reads.

    Attributes:
        array: as the data has it.
        said: its name, for messages.
        dtype: of the input.
        shape: of a row, as the input wants it; None for that of the array.
        batch: how many rows a batch has, None for any number.
        note: what is converted, if anything is.
    """

    array: np.ndarray
    said: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = None
    batch: int | None = None
    note: str = ""

    def converted(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the type and shape of the input.

        Raises: ArgumentError for a number that the type cannot hold.
        """
        if self.shape is not None:
            rows = rows.reshape(-1, *self.shape)
        if rows.dtype == self.dtype:
            return rows
        with np.errstate(over="ignore", invalid="ignore"):
            result = rows.astype(self.dtype)
        whole = rows.dtype.kind in "iu" and self.dtype.kind in "iu"
        if whole and not np.array_equal(result, rows):
            wrong = rows[result != rows].flat[0]
            raise ArgumentError(
                f"{self.said} has {wrong}, which is no {self.dtype.name}. Correct the data."
            )
        return result


def fit(port: Port, array: np.ndarray, said: str, fills: bool) -> Fit:
    """Return how an input reads an array.

    Args:
        port: the input.
        array: [N, …], a row for each example.
        said: the array's name, for messages.
        fills: whether the numbers of a row may fill other axes than the array has.

    Raises: ArgumentError if the input cannot read it.
    """
    if port.kind != "tensor" or port.dtype is None or port.is_optional:
        raise ArgumentError(
            f"Input {port.name!r} is {port.text}, which is read of no file. Train with "
            "whileback.training.Run and batches of your own."
        )
    note = _converted(port, array, said)
    shape = _filled(port, array) if fills else None
    rows = array.shape[1:] if shape is None else shape
    if not array.ndim or not _fits(port.dims, (*array.shape[:1], *rows)):
        raise ArgumentError(_misfit(port, array, said))
    first = port.dims[0] if port.dims else None
    batch = first if isinstance(first, int) else None
    return Fit(array, said, port.dtype, shape, batch, note)


def fit_constant(port: Port, value: Any) -> np.ndarray:
    """Return a constant as the input wants it. Raises: ArgumentError if it does not fit."""
    return np.asarray(bind("data", {port.name: port}, (), {port.name: value}, {})[port.name])


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


def _filled(port: Port, array: np.ndarray) -> tuple[int, ...] | None:
    """Return the axes of an input of fixed sizes that has as many numbers as a row."""
    sizes = [dim for dim in (port.dims or ())[1:] if isinstance(dim, int)]
    if port.dims is None or len(sizes) != len(port.dims) - 1 or not port.dims:
        return None
    return tuple(sizes) if math.prod(sizes) == math.prod(array.shape[1:]) else None


def _fits(dims: tuple[int | str | None, ...] | None, shape: tuple[int, ...]) -> bool:
    if dims is None or len(dims) != len(shape):
        return dims is None
    pairs = zip(dims[1:], shape[1:], strict=True)
    return all(not isinstance(want, int) or want == have for want, have in pairs)


def _misfit(port: Port, array: np.ndarray, said: str) -> str:
    text = (
        f"{said} has shape {list(array.shape)}, but input {port.name!r} is {port.text}, whose "
        "first axis is that of the examples. "
    )
    dims = port.dims or ()
    if len(dims) == 1 and array.shape[1:] == (1,):
        return f"{text}Drop the axis of 1: write it with [:, 0]."
    if not dims:
        return f"{text}It has none: give it as a constant (on the command line --input NAME=3.5)."
    return f"{text}Change the shape of the array, or name another one."
