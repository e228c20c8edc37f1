"""A model of two loops in a folder of its own, and the command to run on it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from whileback.cli import main

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
power (int64 n, float[2] x) => (float loss, float[2] y) <float[2] w = {0.5, 2}> {
    y = Loop (n, "", x) <body = trip (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
        d = Identity (c)
        u = Mul (v, w)
    }>
    loss = ReduceSum <keepdims = 0> (y)
}
"""


class Result(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs `whileback` in a folder with the file `power.onnx.txt`."""
    monkeypatch.chdir(tmp_path)
    Path("power.onnx.txt").write_text(MODEL)

    def run(*words: str) -> Result:
        try:
            status = main(words)
        except SystemExit as end:
            assert isinstance(end.code, int)
            status = end.code
        return Result(status, *capsys.readouterr())

    return run
