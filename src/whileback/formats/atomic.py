"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from whileback.errors import FormatError, why

__all__ = ["atomic_files", "require_free", "write_file"]


def require_free(file: Path, overwrite: bool) -> None:
    """Refuse a path that no file can be written to, before there is anything to write.

    Raises:
        FormatError: a folder or a file is in the way, or the file's folder is not there.
    """
    if file.is_dir():
        raise FormatError(f"'{file}' is a folder; name a file in it")
    if not file.parent.is_dir():
        raise FormatError(f"'{file}': there is no folder '{file.parent}'; make it first")
    if file.exists() and not overwrite:
        raise FormatError(
            f"'{file}' exists; choose another name, or replace it with --force "
            "(in Python overwrite=True)"
        )


def require_folder(folder: Path) -> None:
    """Refuse a path that is no folder, nor can become one.

    Raises:
        FormatError: a file is in the way, or the folder's own folder is not there.
    """
    if folder.exists() and not folder.is_dir():
        raise FormatError(f"'{folder}' is a file; name a folder")
    if not folder.absolute().parent.is_dir():
        raise FormatError(
            f"'{folder}': there is no folder '{folder.absolute().parent}'; make it first"
        )


@contextmanager
def atomic_files(durable: bool = False) -> Iterator[Callable[[Path], BinaryIO]]:
    """Give a function that opens files for writing, which take their names when all are whole.

    Until the block ends each is a hidden file of the same folder; when it ends by an exception,
    Ctrl-C included, all of them are removed and what stood under their names is untouched. What is
    `durable` is on the disk before it takes its name, so that a loss of power leaves one or the
    other.
    """
    written: list[tuple[Path, Path]] = []
    try:
        with ExitStack() as opened:

            def open_file(path: Path) -> BinaryIO:
                hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
                written.append((hidden, path))
                return opened.enter_context(hidden.open("xb"))

            yield open_file
        if durable:
            _sync(hidden for hidden, _ in written)
        for hidden, path in written:
            hidden.replace(path)
        if durable and os.name == "posix":
            _sync({path.parent for _, path in written})
    finally:
        for hidden, _ in written:
            hidden.unlink(missing_ok=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, in place of what is there.

    Raises:
        FormatError: it cannot be written.
    """
    try:
        with atomic_files() as open_file:
            open_file(path).write(data)
    except OSError as error:
        raise FormatError(f"'{path}' cannot be written: {why(error)}") from error


def _sync(paths: Iterable[Path]) -> None:
    """Have the disk hold files and folders as they are."""
    for path in paths:
        number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(number)
        finally:
            os.close(number)
