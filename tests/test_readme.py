"""The console of the README: what it shows is what the commands print."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from whileback.cli import main

ROOT = Path(__file__).parents[1]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def test_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = CONSOLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for step in "".join(blocks).removeprefix("$ whileback ").split("$ whileback "):
        command, _, expected = step.partition("\n")
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == expected


def test_the_example_is_the_file() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    model = (ROOT / "examples" / "decay.onnx.txt").read_text(encoding="utf-8")
    assert model.partition("\n")[2] in readme
