"""Arrays on the command line: read as arguments, printed and saved as results."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, FormatError, why
from whileback.formats.atomic import atomic_files
from whileback.formats.numpy_files import npy, npz

__all__ = ["describe_output", "load_arrays", "read_inputs", "save_outputs"]

# Outputs of at most so many elements are printed whole.
_SHORT = 8


def read_inputs(words: Iterable[str]) -> dict[str, Any]:
    """Return the values of arguments such as `x=x.npy`, `y=3.5` and `z=[[1,2],[3,4]]`.

    Raises:
        ArgumentError: a word is none of these, a name comes twice, or a file cannot be read.
    """
    inputs: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ArgumentError(f"Input {word!r} is not of the form NAME=VALUE, such as x=x.npy.")
        if name in inputs:
            raise ArgumentError(f"Input {name!r} is given twice; give it once.")
        inputs[name] = _read(name, value)
    return inputs


def _read(name: str, value: str) -> Any:
    if not value.endswith(".npy"):
        return _literal(name, value)
    try:
        return npy(Path(value))()
    except FormatError as error:
        raise ArgumentError(f"Input {name!r}: {error}") from error


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file; pickled objects are never loaded.

    Raises: FormatError if it cannot be read.
    """
    return {name: read() for name, read in npz(path).items()}


def _literal(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise ArgumentError(
            f"Input {name!r}: {value!r} is neither a .npy file nor a number, a boolean or a list "
            "of them, such as 3.5, true or [[1,2],[3,4]]."
        ) from error


def describe_output(name: str, value: Any) -> str:
    """Return a line with name, type, and the elements or the smallest and the largest of them."""
    if not isinstance(value, np.ndarray):
        return f"{name} : {'none' if value is None else f'sequence of {len(value)}'}"
    text = value.dtype.kind in "OSUT"
    dtype = ir.DataType.STRING if text else ir.DataType.from_numpy(value.dtype)
    line = f"{name} : {dtype.name}[{','.join(map(str, value.shape))}] = "
    if value.size <= _SHORT or text:
        return line + np.array2string(value, separator=", ", threshold=_SHORT).replace("\n", "")
    return f"{line}{value.size} values, {value.min():.6g} … {value.max():.6g}"


def save_outputs(outputs: Mapping[str, Any], path: str) -> None:
    """Write arrays into an .npz file, whole or not at all; `np.load` reads it without pickle.

    Strings become fixed-size Unicode, types that NumPy lacks (BFLOAT16) FLOAT.

    Raises:
        FormatError: the file cannot be written, or an output is no array.
    """
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray):
            raise FormatError(f"'{path}': output {name!r} is no array, and .npz holds only arrays")
    try:
        with atomic_files() as open_file, zipfile.ZipFile(open_file(Path(path)), "w") as archive:
            for name, value in outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, _plain(value), allow_pickle=False)
    except OSError as error:
        raise FormatError(f"'{path}' cannot be written: {why(error)}") from error


def _plain(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "O":
        return array.astype(str)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
