"""Which data files a model may refer to.

A tensor with external data names a file by a location relative to the folder of its model. That
location comes from the file, so it is not to be trusted: nothing outside of the folder is opened,
whatever the location says and whatever links the folder holds.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from whileback.errors import FormatError, nearest

__all__ = ["DataFolder", "Reference"]


@dataclass(frozen=True)
class Reference:
    """The piece of a data file that a tensor claims: `nbytes` bytes from `offset` on.

    `length` is what the file says about itself, `nbytes` what the tensor's type needs; `where`
    names the tensor in errors.
    """

    where: str
    type: str
    location: str
    offset: int
    length: int | None
    nbytes: int

    @classmethod
    def of(cls, tensor: ir.ExternalTensor, where: str) -> Reference:
        """Return what `tensor`, found at `where`, refers to."""
        return cls(
            where=where,
            type=f"{tensor.dtype.name}[{','.join(map(str, tensor.shape.numpy()))}]",
            location=os.fspath(tensor.location),
            offset=tensor.offset or 0,
            length=tensor.length,
            nbytes=tensor.nbytes,
        )

    def refused(self, problem: str) -> FormatError:
        """Return the error that says why this reference cannot be followed."""
        return FormatError(f"{self.where}: external data location {self.location!r} {problem}")


class DataFolder:
    """The folder that a model lies in, and the only place where its data may be."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._real = Path(os.path.realpath(self.path))
        self._files: dict[str, tuple[Path, int]] = {}

    def is_same(self, other: DataFolder) -> bool:
        """Say whether `other` is the same folder, perhaps by another path."""
        return self._real == other._real

    def location_of(self, file: Path) -> str | None:
        """Return the location of a `file` with its links resolved, None if it lies outside."""
        if not file.is_relative_to(self._real):
            return None
        return file.relative_to(self._real).as_posix()

    def check(self, reference: Reference) -> Path:
        """Return the file that `reference` leads to, all links resolved; opens nothing.

        Raises:
            FormatError: the location is empty, absolute, or leads outside of the folder, also by
                a link; its file is missing or no plain file; the piece is not within the file, or
                not of the size that the tensor's type needs.
        """
        if reference.location not in self._files:
            self._files[reference.location] = self._resolve(reference)
        file, size = self._files[reference.location]
        _check_piece(reference, size)
        return file

    def _resolve(self, reference: Reference) -> tuple[Path, int]:
        self._check_words(reference)
        # Links are followed by name only, and what they lead to is looked at only once it is
        # known to lie inside.
        file = Path(os.path.realpath(self.path / reference.location))
        if not file.is_relative_to(self._real):
            raise reference.refused(
                f"is or passes a link that leads outside of the model's folder '{self.path}'; "
                "put the data file itself into that folder"
            )
        try:
            status = file.stat(follow_symlinks=False)
        except FileNotFoundError:
            raise reference.refused(self._missing(reference.location)) from None
        except OSError as error:
            raise reference.refused(
                f"cannot be looked up in '{self.path}': {error.strerror}; check the path"
            ) from None
        _check_status(reference, status)
        return file, status.st_size

    def _check_words(self, reference: Reference) -> None:
        """Refuse what the location itself gives away, before the disk is asked."""
        location = reference.location
        inside = f"name a file in the model's folder '{self.path}', relative to it"
        if not location:
            raise reference.refused(f"is empty; {inside}")
        if "\0" in location:
            raise reference.refused(f"holds a NUL byte; {inside}")
        if Path(location).is_absolute():
            raise reference.refused(f"is absolute; {inside}")
        if Path(os.path.normpath(location)).parts[:1] == ("..",):
            raise reference.refused(f"leads outside of the model's folder; {inside}")

    def _missing(self, location: str) -> str:
        if not self.path.is_dir():
            return f"cannot be found: there is no folder '{self.path}'; give the model's folder"
        names = sorted(entry.name for entry in self.path.iterdir())
        return (
            f"does not exist in the model's folder '{self.path}'; put the data file there "
            f"({nearest(location, names)})"
        )


def _check_status(reference: Reference, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise reference.refused("is not a regular file; put the data into one")
    if status.st_nlink > 1:
        raise reference.refused(
            f"has {status.st_nlink} hard links, so its bytes may belong to a file elsewhere; "
            "replace it by a copy of itself"
        )


def _check_piece(reference: Reference, size: int) -> None:
    if reference.offset < 0:
        raise reference.refused(f"has the negative offset {reference.offset}; write it again")
    if reference.length is not None and reference.length != reference.nbytes:
        raise reference.refused(
            f"has length {reference.length}, but {reference.type} needs {reference.nbytes} bytes; "
            "write the model again"
        )
    if reference.offset + reference.nbytes > size:
        raise reference.refused(
            f"holds {size} bytes, but {reference.type} is said to take {reference.nbytes} from "
            f"offset {reference.offset}; the data file is truncated or belongs to another model"
        )
