"""The page on tools: what it shows is what the commands print, up to the last digits of errors."""

import math
import re
import shlex
import shutil
from pathlib import Path

import pytest

from whileback.cli import main

ROOT = Path(__file__).parents[1]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")


def test_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = CONSOLE.findall((ROOT / "docs" / "tools.md").read_text(encoding="utf-8"))
    assert blocks
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    status = 0
    for step in "".join(blocks).removeprefix("$ ").split("\n$ "):
        command, _, expected = step.partition("\n")
        if command == "echo $?":
            assert status == int(expected)
            continue
        status = main(shlex.split(command)[1:])
        assert_alike(capsys.readouterr().out, expected, measured="profile" in command)


def assert_alike(got: str, expected: str, *, measured: bool) -> None:
    """Compare words, and numbers up to 0.01 %; of what is measured, the words of the first line."""
    if measured:
        got, expected = (text.partition("\n")[0] for text in (got, expected))
    words, numbers = (split(text) for text in (got, expected))
    assert words[0] == numbers[0]
    for one, other in zip(words[1], numbers[1], strict=True):
        assert measured or math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-6)


def split(text: str) -> tuple[list[str], list[float]]:
    """Return the words, without their distances, and the numbers."""
    return NUMBER.sub("#", text).split(), [float(number) for number in NUMBER.findall(text)]
