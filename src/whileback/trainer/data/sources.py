"""What a file or a folder holds: columns by name, none of which is read before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from whileback.errors import ArgumentError, FormatError
from whileback.formats.files import errors_name, missing
from whileback.formats.numpy_files import npy, npz
from whileback.trainer.data.tables import FORMATS, table

__all__ = ["Source", "open_source"]

Read = Callable[[], np.ndarray]
Where = str | os.PathLike[str] | Mapping[str, Any] | Iterable[str | os.PathLike[str]]

_KNOWN = ".npz, .npy, " + ", ".join(FORMATS)


@dataclass(frozen=True)
class Source:
    """Columns by name, in order; `said` names where they come from, `flat` those of a table.

    The elements of a table's column are in rows without axes of their own.
    """

    said: str
    columns: Mapping[str, Read]
    flat: frozenset[str] = frozenset()

    def matching(self, spec: str) -> list[str]:
        """Return the columns that `a`, `a,b,c` or `a*` names; a column of that very name first."""
        if spec in self.columns:
            return [spec]
        found: list[str] = []
        for part in spec.split(","):
            names = [part] if part in self.columns else None
            names = names or [name for name in self.columns if fnmatchcase(name, part)]
            if not names:
                return []
            found += [name for name in names if name not in found]
        return found

    def read(self, name: str) -> np.ndarray:
        """Return a column. Raises: FormatError, ArgumentError if it is none of numbers or text."""
        return self.columns[name]()


def open_source(where: Where) -> Source:
    """Return what a file, a folder, several of them, or a mapping holds.

    A mapping has arrays, or paths of .npy files.

    Raises:
        ArgumentError: a file is of no known kind, or two have a column of the same name.
        FormatError: a file cannot be read.
    """
    if isinstance(where, Mapping):
        columns = {str(name): _column(value) for name, value in where.items()}
        return Source("the data", columns)
    if isinstance(where, str | os.PathLike):
        return _file(Path(where))
    return _joined([_file(Path(each)) for each in where])


def _column(value: Any) -> Read:
    if isinstance(value, str | os.PathLike):
        return npy(Path(value))
    array = np.asarray(value)
    return lambda: array


def _file(path: Path) -> Source:
    said, suffix = f"'{path}'", path.suffix.lower()
    with errors_name(path):
        if path.is_dir():
            return _folder(path)
        if not path.exists():
            raise FormatError(missing(path))
    if suffix == ".npz":
        return Source(said, npz(path))
    if suffix == ".npy":
        return Source(said, {path.stem: npy(path)})
    if suffix in FORMATS:
        columns = table(path)
        return Source(said, columns, frozenset(columns))
    raise ArgumentError(
        f"{said} is no file of data that is known: its name ends in none of {_KNOWN}. Convert it, "
        "or give a folder of .npy files."
    )


def _folder(path: Path) -> Source:
    """Return a column for each .npy file, or the rows of files of another kind, in their order."""
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in (".npz", *FORMATS))
    if files:
        return _stacked(f"'{path}'", [_file(file) for file in files])
    arrays = sorted(path.glob("*.npy"))
    if not arrays:
        raise FormatError(
            f"holds none of {_KNOWN}; give a folder with a .npy file for each input, or with "
            "files of rows"
        )
    return Source(f"'{path}'", {file.stem: npy(file) for file in arrays})


def _stacked(said: str, parts: list[Source]) -> Source:
    """Return the rows of several files that have the same columns."""
    first = parts[0]
    for part in parts[1:]:
        other = set(first.columns) ^ set(part.columns)
        if other:
            name = min(other)
            has, lacks = (first, part) if name in first.columns else (part, first)
            raise ArgumentError(
                f"{has.said} has {name!r}, and {lacks.said} has not: files of one folder are parts "
                "of one set. Give all of them the same arrays."
            )
    columns = {name: partial(_rows, parts, name) for name in first.columns}
    return Source(said, columns, first.flat)


def _rows(parts: list[Source], name: str) -> np.ndarray:
    arrays = [part.read(name) for part in parts]
    for part, array in zip(parts, arrays, strict=True):
        if _kind(array) != _kind(arrays[0]) or not array.ndim:
            raise ArgumentError(
                f"{name!r} is {_kind(arrays[0])} in {parts[0].said}, and {_kind(array)} in "
                f"{part.said}: files of one folder are parts of one set. Give all of them rows of "
                "one type and shape."
            )
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype.name} {list(array.shape[1:])}"


def _joined(sources: list[Source]) -> Source:
    columns: dict[str, Read] = {}
    for source in sources:
        for name in source.columns:
            if name in columns:
                raise ArgumentError(
                    f"{source.said} has {name!r}, and so has another one of the files. Give each "
                    "array once."
                )
        columns.update(source.columns)
    said = " and ".join(source.said for source in sources) or "the data"
    return Source(said, columns, frozenset().union(*(source.flat for source in sources)))
