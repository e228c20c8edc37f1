"""Tables in Parquet, Arrow and CSV files, through pyarrow: each column as an array of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from whileback.errors import ArgumentError, FormatError
from whileback.formats.files import errors_name

__all__ = ["FORMATS", "table"]

Read = Callable[[], np.ndarray]

FORMATS = (".parquet", ".arrow", ".feather", ".csv")


def table(path: Path) -> dict[str, Read]:
    """Return what reads each column of a file.

    Columns are numbers, booleans or text [N], or lists of so many numbers in every row [N, …].

    Raises:
        ArgumentError: pyarrow is not installed.
        FormatError: the file cannot be read.
    """
    arrow = _pyarrow(path)
    with _errors(path, arrow):
        if path.suffix.lower() == ".parquet":
            names = arrow.parquet.read_schema(path).names
            return {name: partial(_parquet, arrow, path, name) for name in names}
        whole = arrow.csv.read_csv(path) if path.suffix.lower() == ".csv" else _ipc(arrow, path)
        names = whole.column_names
    return {name: partial(_column, arrow, path, name, whole[name]) for name in names}


def _parquet(arrow: ModuleType, path: Path, name: str) -> np.ndarray:
    with _errors(path, arrow):
        column = arrow.parquet.read_table(path, columns=[name])[name]
    return _column(arrow, path, name, column)


def _ipc(arrow: ModuleType, path: Path) -> Any:
    """Return the table of an Arrow file, of either of its two kinds, mapped into memory."""
    file = arrow.memory_map(str(path))
    try:
        return arrow.ipc.open_file(file).read_all()
    except arrow.ArrowInvalid:
        file.seek(0)
        return arrow.ipc.open_stream(file).read_all()


def _column(arrow: ModuleType, path: Path, name: str, column: Any) -> np.ndarray:
    with _errors(path, arrow):
        if column.null_count:
            row = next(i for i, valid in enumerate(column.is_valid()) if not valid.as_py())
            raise FormatError(
                f"column {name!r} has no value in row {row}, and in {column.null_count} in all; "
                "fill them, or leave these rows out"
            )
        if arrow.types.is_null(column.type):
            raise FormatError(f"column {name!r} has no rows, so that nobody knows its type")
        array = column.combine_chunks()
        # Older versions give several chunks back even when they are one.
        array = array.chunk(0) if isinstance(array, arrow.ChunkedArray) else array
        return _rows(arrow, name, array)


def _rows(arrow: ModuleType, name: str, array: Any) -> np.ndarray:
    """Return the rows of an Arrow array."""
    kind = array.type
    if array.null_count:
        raise FormatError(f"column {name!r} has lists that lack values; fill them")
    if isinstance(array, arrow.ExtensionArray):
        return _rows(arrow, name, array.storage).reshape(-1, *getattr(kind, "shape", ()))
    if arrow.types.is_dictionary(kind):
        return _rows(arrow, name, array.dictionary_decode())
    if arrow.types.is_fixed_size_list(kind):
        inner = _rows(arrow, name, array.flatten())
        return inner.reshape(len(array), kind.list_size, *inner.shape[1:])
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        return _lists(arrow, name, array)
    text = arrow.types.is_string(kind) or arrow.types.is_large_string(kind)
    if text or arrow.types.is_primitive(kind):
        found: np.ndarray = array.to_numpy(zero_copy_only=False)
        if found.dtype.kind in "biufO":
            return found
    raise FormatError(f"column {name!r} has {kind}, which is neither numbers nor text")


def _lists(arrow: ModuleType, name: str, array: Any) -> np.ndarray:
    lengths = array.value_lengths().to_numpy(zero_copy_only=False)
    size = int(lengths[0]) if len(lengths) else 0
    other = np.flatnonzero(lengths != size)
    if len(other):
        raise FormatError(
            f"column {name!r} has {size} values in row 0, but {int(lengths[other[0]])} in row "
            f"{int(other[0])}; fill the lists up to one length"
        )
    inner = _rows(arrow, name, array.flatten())
    return inner.reshape(len(array), size, *inner.shape[1:])


def _pyarrow(path: Path) -> ModuleType:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ArgumentError(
            f"'{path}' is read by the package pyarrow, which is not installed. Install it with: "
            "pip install 'whileback[data]'"
        ) from error
    module: ModuleType = pyarrow
    return module


@contextmanager
def _errors(path: Path, arrow: ModuleType) -> Iterator[None]:
    """Say of a file what pyarrow finds wrong with it."""
    with errors_name(path):
        try:
            yield
        except (arrow.ArrowException, ValueError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise FormatError(f"cannot be read as a table ({reason}); write it again") from error
