"""Ctrl-C where Python does not get to see it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["INTERRUPTED", "interruptible"]

INTERRUPTED = 130
_GRACE = 2.0


@contextmanager
def interruptible(presses: int = 1) -> Iterator[None]:
    """End the process if Ctrl-C, pressed so often, does not end the block within two seconds.

    Python raises KeyboardInterrupt between two of its own instructions only, and a runtime that is
    in an endless loop of a model does not come back to them.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(reader, ended, presses), daemon=True)
    with reader, writer:
        earlier = signal.set_wakeup_fd(writer.fileno())
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            signal.set_wakeup_fd(earlier)
            writer.close()
            watcher.join()


def _watch(reader: socket.socket, ended: threading.Event, presses: int) -> None:
    """Read the numbers of the signals that arrive, until the writer is closed."""
    while number := reader.recv(1):
        if number[0] != signal.SIGINT:
            continue
        presses -= 1
        if presses <= 0 and not ended.wait(_GRACE):
            print("interrupted", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)
