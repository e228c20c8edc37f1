"""What a file or a folder holds: columns by name, none of which is read before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from whileback.errors import ArgumentError, FormatError
from whileback.formats.files import errors_name
from whileback.trainer.data.numpy_files import npy, npz
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
    """Return what a file, a folder of .npy files, several of them, or a mapping holds.

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
            return Source(said, _folder(path))
        if not path.exists():
            raise FormatError("does not exist; check the path")
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


def _folder(path: Path) -> dict[str, Read]:
    files = sorted(path.glob("*.npy"))
    if not files:
        raise FormatError("holds no .npy files; give a folder with one for each input")
    return {file.stem: npy(file) for file in files}


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
