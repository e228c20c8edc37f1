"""Ctrl-C that waits until a step is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupt", "deferred_interrupts"]


class Interrupt:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.came = False


@contextmanager
def deferred_interrupts() -> Iterator[Interrupt]:
    """Note the first Ctrl-C of the block instead of raising; the second one raises at once.

    Python tells only its main thread of signals; in others nothing changes.
    """
    noted = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    earlier = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        noted.came = True
        signal.signal(signal.SIGINT, earlier)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, earlier)
