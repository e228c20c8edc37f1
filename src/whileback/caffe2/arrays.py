"""Arrays as blobs hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError

__all__ = ["blob_array", "blob_tensor"]


def blob_array(name: str, value: Any) -> np.ndarray:
    """Return a copy of an array, or of a list of numbers or of strings, that a blob can hold.

    An array keeps its type; Python's floats become FLOAT, its integers INT64. Byte strings are
    read as UTF-8.

    Raises: ArgumentError if the value is no such thing.
    """
    typed = hasattr(value, "dtype")
    given = np.array(value, None if typed else object)
    texts = any(isinstance(each, (str, bytes)) for each in given.flat)
    empty = not given.size and typed and given.dtype.kind == "O"
    if given.dtype.kind in "SU" or texts or empty:
        return _strings(name, given)
    array = given if typed else _numbers(name, value)
    if array.dtype.kind not in "biufV":
        raise ArgumentError(f"Blob '{name}' cannot hold {value!r}: give an array of numbers.")
    return array


def blob_tensor(name: str, array: np.ndarray) -> ir.TensorProtocol:
    """Return what a blob holds as a constant of a model.

    Raises: ArgumentError for strings that are no UTF-8.
    """
    if array.dtype.kind not in "OSU":
        return ir.tensor(array, name=name)
    texts = [text.encode() for text in _strings(name, array).flat]
    return ir.StringTensor(texts, shape=ir.Shape(array.shape), name=name)


def _numbers(name: str, value: Any) -> np.ndarray:
    """Return numbers of Python as an array."""
    try:
        array = np.array(value)
    except ValueError:
        raise ArgumentError(
            f"Blob '{name}' cannot hold {value!r}: its rows are of different lengths."
        ) from None
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _strings(name: str, array: np.ndarray) -> np.ndarray:
    """Return an array of Python's strings."""
    try:
        texts = [each.decode() if isinstance(each, bytes) else each for each in array.flat]
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"Blob '{name}' cannot hold {error.object!r}: it is no UTF-8, and ONNX has no other "
            "strings."
        ) from None
    for each in texts:
        if not isinstance(each, str):
            raise ArgumentError(f"Blob '{name}' cannot hold {each!r} among strings.")
    return np.array(texts, object).reshape(array.shape)
