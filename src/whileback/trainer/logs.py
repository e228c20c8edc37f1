"""What a run tells of itself: lines of JSON, and events for TensorBoard."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whileback.errors import ArgumentError, FormatError, WhilebackWarning
from whileback.formats.files import errors_name

__all__ = ["Events", "Log", "events", "require_events"]

_MISSING = (
    "Events for TensorBoard need the package tensorboardX, which is not installed. Install it "
    "with: pip install 'whileback[tensorboard]'"
)


class Log:
    """A file of JSON lines that goes on at a position: what was written behind it is cut off."""

    def __init__(self, path: Path, position: int = 0) -> None:
        with errors_name(path):
            self._file = path.open("ab")
            size = self._file.tell()
            if size < position:
                raise FormatError(
                    f"has {size} bytes, but had {position} when the last checkpoint was written. "
                    "Put the file back, or begin another run."
                )
            self._file.truncate(position)

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line."""
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def position(self) -> int:
        """Return where the file ends, once it is on the disk that far."""
        os.fsync(self._file.fileno())
        return self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Events:
    """Numbers for TensorBoard; none without a writer."""

    def __init__(self, writer: Any = None) -> None:
        self._writer = writer

    def write(self, group: str, numbers: Mapping[str, float], step: int) -> None:
        """Add numbers, drawn over the steps, as `group/name`."""
        if self._writer is not None:
            for name, number in numbers.items():
                self._writer.add_scalar(f"{group}/{name}", number, step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()


def require_events(wanted: bool | None) -> None:
    """Refuse to want events without the package that writes them.

    Raises: ArgumentError.
    """
    if not wanted:
        return
    try:
        import tensorboardX  # noqa: F401
    except ImportError as error:
        raise ArgumentError(f"{_MISSING}, or leave them out with tensorboard=False.") from error


def events(folder: Path, wanted: bool | None, step: int | None) -> Events:
    """Return a writer of events that goes on after a step: later ones of an earlier try are purged.

    Args:
        folder: where its file will be.
        wanted: None wants one if the package is there, and warns once if it is not.
        step: the last one that was made; None if there is no earlier try.

    Raises: ArgumentError if one is wanted, and the package is missing.
    """
    require_events(wanted)
    if wanted is False:
        return Events()
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        warnings.warn(f"{_MISSING}. Losses are in log.jsonl alone.", WhilebackWarning, stacklevel=3)
        return Events()
    # Names tell the second alone: one that is there already holds nothing but what is purged.
    suffix = f".{step or 0}"
    purge = None if step is None else step + 1
    return Events(SummaryWriter(str(folder), purge_step=purge, filename_suffix=suffix))
