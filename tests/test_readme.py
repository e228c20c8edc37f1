"""The README and the page on training: what they show is what commands print, and runs."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import whileback
from whileback.cli import main

ROOT = Path(__file__).parents[1]
BLOCKS = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)
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


@pytest.mark.parametrize(
    ("page", "first", "end"),
    [("README.md", "\n## Training\n", "\n## "), ("docs/training.md", "# Training\n", "\x00")],
)
def test_training(page: str, first: str, end: str, training_files: dict[str, Any]) -> None:
    """What a page shows of training, on a small model and small data."""
    section = (ROOT / page).read_text(encoding="utf-8").partition(first)[2].partition(end)[0]
    blocks = BLOCKS.findall(section)
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    for kind, block in blocks:
        if kind == "python":
            exec(block, training_files)
            continue
        for command in block.replace("\\\n", " ").strip().splitlines():
            assert main(shlex.split(command, comments=True)[1:]) == 0
    tuned = whileback.compile("tuned.onnx")(x=training_files["batches"][0]["x"])
    assert tuned["z"].shape == (32, 2)


@pytest.fixture
def training_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the code refers to, in a folder with the files that it reads."""
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 2)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int64)
    monkeypatch.chdir(tmp_path)
    whileback.save(ir.from_onnx_text(CLASSIFIER), "model.onnx")
    for name in ("train", "test"):
        np.savez(f"{name}.npz", x=x, y=y)
    np.save("x.npy", x), np.save("y.npy", y)
    rows = [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), y.tolist(), strict=True)]
    Path("table.csv").write_text("\n".join(["p0,p1,y", *rows]))
    return {"whileback": whileback, "x": x, "y": y, "batches": [{"x": x, "label": y}] * 2}


def test_the_example_is_the_file() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    model = (ROOT / "examples" / "decay.onnx.txt").read_text(encoding="utf-8")
    assert model.partition("\n")[2] in readme
