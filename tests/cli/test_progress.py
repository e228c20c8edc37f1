"""The line that says what takes long: on terminals only, and only when it does."""

import io
import sys
import time

import pytest

from whileback.cli import progress
from whileback.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.02)


def wait_for(stream: io.StringIO, text: str) -> None:
    for _ in range(500):
        if text in stream.getvalue():
            return
        time.sleep(0.01)
    raise AssertionError(stream.getvalue())


def test_long_work_is_named_and_the_line_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("reading m.onnx") as shown:
        wait_for(stream, "\r\x1b[Kreading m.onnx … 0 s")
        shown.copied("g.onnx.data", 3 << 20, 12 << 20)
        wait_for(stream, "reading m.onnx … 0 s, g.onnx.data: 3 of 12 MiB")
    assert stream.getvalue().endswith("\r\x1b[K")


def test_short_work_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_PATIENCE", 60)
    with Progress("reading m.onnx"):
        pass
    assert stream.getvalue() == ""


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("reading m.onnx"):
        time.sleep(0.1)
    assert stream.getvalue() == ""
