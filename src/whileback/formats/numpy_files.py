"""Arrays in NumPy's files, mapped into memory where the file has them as they are.

Nothing is unpickled, and no array is made that the size of the file does not justify.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from whileback.errors import FormatError
from whileback.formats.files import errors_name

__all__ = ["npy", "npz"]

Read = Callable[[], np.ndarray]

# By so much, and no more, does deflate make anything smaller.
_RATIO = 1032
# What precedes the data of a member of an archive: this, its name, and a field.
_LOCAL_HEADER = 30
# Of what NumPy and zipfile raise for bytes that make no sense, headers are parsed as Python.
_DAMAGES = (
    EOFError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def npy(path: Path) -> Read:
    """Return what reads a .npy file."""
    return partial(_npy, path)


def npz(path: Path) -> dict[str, Read]:
    """Return what reads each array of a .npz file.

    Raises: FormatError if it cannot be read.
    """
    with _errors(path, ".npz", "np.savez"), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if not members:
            raise FormatError("holds no arrays; write them with np.savez")
    return {info.filename.removesuffix(".npy"): partial(_member, path, info) for info in members}


def _npy(path: Path) -> np.ndarray:
    with _errors(path, ".npy", "np.save"), path.open("rb") as file:
        return _mapped(path, file, path.stat().st_size)


def _member(path: Path, info: zipfile.ZipInfo) -> np.ndarray:
    with _errors(path, ".npz", "np.savez"):
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            with path.open("rb") as file:
                start = _start(file, info)
                return _mapped(path, file, start + info.file_size)
        if info.file_size > _RATIO * (info.compress_size + 1):
            raise FormatError(f"is damaged: {info.filename!r} cannot have the size that it says")
        with zipfile.ZipFile(path) as archive, archive.open(info) as packed:
            return _unpacked(packed, info.file_size)


def _start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Move to the data of a member that is not compressed, and return its place in the file."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    sizes = (int.from_bytes(header[i : i + 2], "little") for i in (26, 28))
    return file.seek(info.header_offset + _LOCAL_HEADER + sum(sizes))


def _header(file: IO[bytes], end: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array that ends at a place."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise FormatError("has an array of another kind than numbers or text; write plain ones")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise FormatError("has an array of pickled objects, which are never loaded")
    if file.tell() + math.prod(shape) * dtype.itemsize != end:
        raise FormatError("is damaged, or truncated: its size is not that of its array")
    return shape, fortran, dtype


def _mapped(path: Path, file: IO[bytes], end: int) -> np.ndarray:
    """Return the array at the place of the file, whose bytes are read when they are needed."""
    shape, fortran, dtype = _header(file, end)
    if not math.prod(shape) * dtype.itemsize:
        return np.zeros(shape, dtype)
    order: Any = "F" if fortran else "C"
    mapped = np.memmap(path, dtype, "r", file.tell(), shape, order)
    return mapped.view(np.ndarray)


def _unpacked(packed: IO[bytes], size: int) -> np.ndarray:
    shape, fortran, dtype = _header(packed, size)
    flat = np.frombuffer(packed.read(), dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


@contextmanager
def _errors(path: Path, kind: str, writer: str) -> Iterator[None]:
    """Say of a file what is wrong with it."""
    with errors_name(path):
        try:
            yield
        except _DAMAGES as error:
            # Of what a header spells, NumPy's message shows Python's own objects.
            reason = str(error).partition(": <ast.")[0].rstrip(".")
            raise FormatError(
                f"holds no arrays in NumPy's {kind} format, which {writer} writes, or is damaged "
                f"({reason}); write it again"
            ) from error
