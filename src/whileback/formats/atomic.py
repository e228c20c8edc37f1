"""Files that appear whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from whileback.errors import FormatError

__all__ = ["atomic_files", "require_free"]


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


@contextmanager
def atomic_files() -> Iterator[Callable[[Path], BinaryIO]]:
    """Give a function that opens files for writing, which take their names when all are whole.

    Until the block ends each is a hidden file of the same folder; when it ends by an exception,
    Ctrl-C included, all of them are removed and what stood under their names is untouched.
    """
    written: list[tuple[Path, Path]] = []
    try:
        with ExitStack() as opened:

            def open_file(path: Path) -> BinaryIO:
                hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
                written.append((hidden, path))
                return opened.enter_context(hidden.open("xb"))

            yield open_file
        for hidden, path in written:
            hidden.replace(path)
    finally:
        for hidden, _ in written:
            hidden.unlink(missing_ok=True)
