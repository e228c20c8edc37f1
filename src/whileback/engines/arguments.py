"""Checks the arrays that a compiled model is called with, before the runtime sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.shapes import describe

__all__ = ["bind"]

_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def bind(
    model: str,
    inputs: Mapping[str, ir.Value],
    optional: Iterable[str],
    feeds: Mapping[str, Any],
    named: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments by input name, as arrays (lists of arrays for sequences).

    A value with a `dtype` must have exactly the input's; Python numbers, lists and tuples have
    none and are converted, unless that would turn a float into an integer or a boolean.

    Raises:
        ArgumentError: a name is unknown, missing or given twice; a type, rank or size is wrong.
    """
    for name in feeds:
        if name in named:
            raise ArgumentError(f"Input {name!r} is given both in the mapping and by keyword.")
    given = {**feeds, **named}
    for name in given:
        if name not in inputs:
            raise ArgumentError(f"Model {model!r} has no input {name!r}; {nearest(name, inputs)}")
    missing = [v for n, v in inputs.items() if n not in given and n not in set(optional)]
    if missing:
        listed = ", ".join(f"{value.name!r} {describe(value)}" for value in missing)
        raise ArgumentError(
            f"Model {model!r} needs more inputs: {listed}. Pass each one by keyword, "
            "or all in one mapping from names to arrays."
        )
    return {name: _argument(inputs[name], argument) for name, argument in given.items()}


def _argument(value: ir.Value, argument: Any) -> Any:
    """Return the argument as the runtime wants it, checked against the declared type."""
    if isinstance(value.type, ir.OptionalType) and argument is None:
        return None
    if isinstance(value.type, ir.SequenceType):
        if not isinstance(argument, list | tuple):
            raise ArgumentError(
                f"Input {value.name!r} is {describe(value)}, but got "
                f"{type(argument).__name__!r}. Pass a list of arrays."
            )
        return [_tensor(value, item) for item in argument]
    return _tensor(value, argument)


def _tensor(value: ir.Value, argument: Any) -> np.ndarray:
    if value.dtype is None:
        return np.asarray(argument)
    if not hasattr(argument, "dtype"):
        array = _converted(value, argument)
    else:
        array = np.asarray(argument)
        if not _same_type(array, value.dtype):
            advice = f"astype({_dtype(value.dtype).name!r})"
            raise _mismatch(value, array, f"Convert it with `{advice}`.")
    declared = () if value.shape is None else tuple(value.shape)
    if value.shape is not None and array.ndim != len(declared):
        raise _mismatch(value, array, f"It must have rank {len(declared)}.")
    for axis, (want, have) in enumerate(zip(declared, array.shape, strict=False)):
        if isinstance(want, int) and want != have:
            raise _mismatch(value, array, f"Axis {axis} must have size {want}.")
    return array


def _converted(value: ir.Value, argument: Any) -> np.ndarray:
    """Turn Python numbers, lists of them, or strings into an array of the declared type."""
    assert value.dtype is not None
    try:
        plain = np.asarray(argument)
        if value.dtype == ir.DataType.STRING:
            return np.asarray(argument, dtype=object)
        array = np.asarray(argument, dtype=_dtype(value.dtype))
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError(
            f"Input {value.name!r} is {describe(value)}, and the value passed for it "
            f"cannot be converted: {error}."
        ) from error
    if plain.size and _RANK.get(plain.dtype.kind, 4) > _rank(value.dtype):
        raise _mismatch(value, plain, "That would lose digits.")
    return array


def _rank(dtype: ir.DataType) -> int:
    return _RANK["f"] if dtype.is_floating_point() else _RANK[_dtype(dtype).kind]


def _dtype(dtype: ir.DataType) -> np.dtype[Any]:
    return np.dtype(dtype.numpy())


def _same_type(array: np.ndarray, dtype: ir.DataType) -> bool:
    if dtype == ir.DataType.STRING:
        return array.dtype.kind in "OSUT"
    return array.dtype == _dtype(dtype)


def _mismatch(value: ir.Value, array: np.ndarray, advice: str) -> ArgumentError:
    return ArgumentError(
        f"Input {value.name!r} is {describe(value)}, but got an array of {array.dtype.name} "
        f"with shape {array.shape}. {advice}"
    )
