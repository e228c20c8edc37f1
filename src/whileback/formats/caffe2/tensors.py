"""Caffe2's tensors to NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from whileback.errors import NetDefError
from whileback.formats.caffe2.caffe2_pb2 import TensorProto

__all__ = ["DTYPES", "numpy_dtype", "to_array"]

DTYPES: dict[int, np.dtype] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.BYTE: np.dtype(np.uint8),
    TensorProto.STRING: np.dtype(object),
    TensorProto.BOOL: np.dtype(np.bool_),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.DOUBLE: np.dtype(np.float64),
}


def numpy_dtype(data_type: int, where: str) -> np.dtype:
    """Return NumPy's type for one of Caffe2's; strings are objects.

    Raises: NetDefError, which begins with `where`, if it is no type of tensors.
    """
    if data_type not in DTYPES:
        known = ", ".join(f"{TensorProto.DataType.Name(key)} ({key})" for key in DTYPES)
        raise NetDefError(
            f"{where}: there is no tensor of data type {data_type}; there are {known}."
        )
    return DTYPES[data_type]


def to_array(tensor: TensorProto) -> np.ndarray:
    """Return the elements of a message as an array; strings are bytes in an array of objects.

    Raises: NetDefError if it does not hold as many elements as its dimensions say.
    """
    where = f"Tensor '{tensor.name}'"
    dtype = numpy_dtype(tensor.data_type, where)
    if any(dim < 0 for dim in tensor.dims):
        raise NetDefError(f"{where} has a negative dimension: {list(tensor.dims)}.")
    elements = _elements(tensor, dtype)
    expected = math.prod(tensor.dims)
    if len(elements) != expected:
        raise NetDefError(
            f"{where} has the dimensions {list(tensor.dims)}, {expected} elements, but holds "
            f"{len(elements)}; the file is damaged."
        )
    try:
        return elements.reshape(tuple(tensor.dims))
    except ValueError:
        raise NetDefError(
            f"{where} has the dimensions {list(tensor.dims)}, which no array has."
        ) from None


def _elements(tensor: TensorProto, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "O":
        strings = np.empty(len(tensor.string_data), dtype=object)
        strings[:] = list(tensor.string_data)
        return strings
    for data in (tensor.raw_data, tensor.byte_data):
        if data and len(data) % dtype.itemsize == 0:
            return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    if dtype == np.float16:
        return np.array(tensor.int32_data, np.uint32).astype(np.uint16).view(np.float16)
    fields: dict[str, Sequence[float]] = {
        "float32": tensor.float_data,
        "float64": tensor.double_data,
        "int64": tensor.int64_data,
    }
    return np.array(fields.get(dtype.name, tensor.int32_data)).astype(dtype)
