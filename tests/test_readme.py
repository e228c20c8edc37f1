"""The console of the README: what it shows is what the commands print."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import whileback
from whileback.cli import main

ROOT = Path(__file__).parents[1]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


CLASSIFIER = """<ir_version: 10, opset_import: ["" : 21]>
classifier (float[N,2] x) => (float[N,2] z) <float[2,2] w = {1, 0, 0, 1}, float[2] bias = {0, 0}> {
    z = Gemm(x, w, bias)
}"""


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


def test_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the section on training shows, on a small model and small data."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Training\n")[2]
    blocks = PYTHON.findall(section.partition("\n## ")[0])
    assert len(blocks) > 1
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 2)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int64)
    monkeypatch.chdir(tmp_path)
    whileback.save(ir.from_onnx_text(CLASSIFIER), "model.onnx")
    scope = {"whileback": whileback, "batches": [(x, y)] * 2, "x": x, "y": y}
    scope |= {"x_test": x, "y_test": y}
    for block in blocks:
        exec(block, scope)
    assert whileback.compile("tuned.onnx")(x=x)["z"].shape == (32, 2)


def test_the_example_is_the_file() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    model = (ROOT / "examples" / "decay.onnx.txt").read_text(encoding="utf-8")
    assert model.partition("\n")[2] in readme
