"""Reading a file whole, with errors that say what is wrong with it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whileback.errors import FormatError, WhilebackError, nearest, why

__all__ = ["errors_name", "missing", "read_bytes"]

MAX_PROTOBUF_BYTES = 2**31 - 1
_GIT_LFS = b"version https://git-lfs"


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Put the name of the file before what went wrong with it."""
    try:
        yield
    except WhilebackError as error:
        raise type(error)(f"'{path}': {error}") from error.__cause__
    except OSError as error:
        raise FormatError(f"'{path}': {why(error)}") from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a model's file.

    Raises: FormatError if it is missing, empty, no regular file, larger than Protobuf allows, or
        only a pointer that Git LFS left in place of the file.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise FormatError(missing(path)) from None
    if stat.S_ISDIR(status.st_mode) and (path / "saved_model.pb").exists():
        raise FormatError(
            "is a SavedModel of TensorFlow's, not an ONNX model; convert it with tf2onnx "
            "(python -m tf2onnx.convert --saved-model FOLDER --output model.onnx)"
        )
    if stat.S_ISDIR(status.st_mode):
        raise FormatError("is a folder; give the model file in it")
    if not stat.S_ISREG(status.st_mode):
        raise FormatError("is not a regular file; give a model file")
    if status.st_size == 0:
        raise FormatError("is empty; write or download it again")
    if status.st_size > MAX_PROTOBUF_BYTES:
        raise FormatError(
            f"has {status.st_size} bytes, and Protobuf holds at most 2 GB; give the model file, "
            "not its data, or store its weights as external data"
        )
    data = path.read_bytes()
    if data.startswith(_GIT_LFS):
        raise FormatError("is a Git LFS pointer, not the model itself; run git lfs pull")
    return data


def missing(path: Path) -> str:
    """Say of a path that it does not exist, and what was probably meant."""
    if not path.parent.is_dir():
        return f"does not exist, nor does the folder '{path.parent}'; check the path"
    names = sorted(entry.name for entry in path.parent.iterdir())
    return f"does not exist; {nearest(path.name, names) if names else 'its folder is empty'}"
