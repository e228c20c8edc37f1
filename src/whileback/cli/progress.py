"""Says on a terminal what takes long."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

__all__ = ["Progress"]

_PATIENCE = 1.0


class Progress:
    """Shows a line on stderr, if that is a terminal, once the block has taken a second.

    The line is removed when the block ends.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = time.monotonic()
        self._shown = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._detail = ""

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def copied(self, file: str, done: int, total: int) -> None:
        """Note that `done` of `total` bytes of a file are written."""
        self._detail = f", {file}: {done >> 20} of {total >> 20} MiB"

    def _tick(self) -> None:
        while not self._stopped.wait(_PATIENCE):
            seconds = time.monotonic() - self._start
            sys.stderr.write(f"\r\x1b[K{self._what} … {seconds:.0f} s{self._detail}")
            sys.stderr.flush()
            self._shown = True
