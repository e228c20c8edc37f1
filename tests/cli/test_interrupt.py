"""Ctrl-C that Python does not get to see ends the process, also of commands that wait for it."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from whileback.cli import interrupt
from whileback.cli.interrupt import interruptible


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return with what statuses the process was ended, where Python does nothing on Ctrl-C."""
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    monkeypatch.setattr(interrupt, "_GRACE", 0.01)
    earlier = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield statuses
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.parametrize("presses", [1, 2])
def test_so_many_presses_end_the_process(presses: int, ends: list[int]) -> None:
    with interruptible(presses):
        for _ in range(presses):
            assert ends == []
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.1)
        assert ends == [130]


def test_a_block_that_ends_in_time_is_left_alone(
    ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt, "_GRACE", 60)
    with interruptible():
        signal.raise_signal(signal.SIGINT)
    assert ends == []
