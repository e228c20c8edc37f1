"""What is published: built, installed into a clean environment from the registry, and used there.

`make pythons` does the same for other versions of Python (`WHILEBACK_PYTHONS`).
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import whileback

ROOT = Path(__file__).parents[2]
PYTHONS = os.environ.get("WHILEBACK_PYTHONS", sys.executable).split()
MODEL = """<ir_version: 10, opset_import: ["" : 21]>
f (float x, float w) => (float y) { h = Mul (x, w) y = Mul (h, h) }"""
# Commands, and a line that each must print.
COMMANDS = {
    "--version": f"whileback {whileback.__version__}",
    "gradient m.onnx.txt --of y --wrt w -o g.onnx": "",
    "show g.onnx": "  w_grad : FLOAT[]",
    "show g.onnx --html page.html": "",
    "rules Mul": "C = A·B, so dA = dC·B and dB = dC·A, each summed back to its own shape.",
    "completion bash": (
        "error: completion needs the package shtab, which is not installed. Install it with: "
        "pip install 'whileback[completion]'"
    ),
    "run g.onnx x=1 w=2": (
        "error: The engine 'onnxruntime' needs the package onnxruntime, which is not installed. "
        "Install it with: pip install 'whileback[onnxruntime]'"
    ),
}
PROGRAM = '''"""A program of somebody else's."""

import numpy as np
import onnx
import onnx_ir as ir

import whileback

model: onnx.ModelProto = whileback.gradient("m.onnx", of="loss", wrt=["w"])
own: ir.Model = whileback.gradient(whileback.load("m.onnx"), of="loss", wrt="w")
text: str = whileback.show(model)
f: whileback.Compiled = whileback.compile(model)
ok: bool = whileback.check(model, "loss", "w", {"x": np.zeros(3)}).ok
step: ir.Model = whileback.training.step(own, "mse", "adam")
whileback.gradient("m.onnx", of=3, wrt="w")
whileback.gradients("m.onnx")
'''


def call(*words: str | Path, folder: Path = ROOT) -> str:
    """Run a program without what it would inherit of this one, and return what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("python", PYTHONS)
def test_distributions(python: str, tmp_path: Path) -> None:
    dist, folder = tmp_path / "dist", tmp_path / "environment"
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist)
    (source,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    assert (
        call(sys.executable, "-m", "twine", "check", "--strict", wheel, source).count("PASS") == 2
    )
    expected = assert_whole(wheel, source)
    call(python, "-m", "venv", "--without-pip", folder)
    for distribution, options in ((wheel, []), (source, ["--no-deps", "--force-reinstall"])):
        install(folder / "bin/python", distribution, options)
        (package,) = folder.glob("lib/python*/site-packages/whileback")
        files = {str(file.relative_to(package.parent)) for file in package.rglob("*.*")}
        assert {file for file in files if "__pycache__" not in file} == expected
        assert call(folder / "bin/whileback", "--version") == f"whileback {whileback.__version__}\n"
    assert_commands(folder / "bin/whileback", tmp_path)
    if python == sys.executable:
        assert_types(folder / "bin/python", tmp_path)


def assert_whole(wheel: Path, source: Path) -> set[str]:
    """Hold what is in the files against what is in the repository; return the package's."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(source) as archive:
        given = {name.partition("/")[2] for name in archive.getnames()}
    tracked = call("git", "ls-files", "src/whileback").split()
    assert names == {name.removeprefix("src/") for name in tracked}
    assert {"README.md", "LICENSE", *tracked} <= given
    assert not [name for name in given if name.startswith("tests")]
    assert {"whileback/py.typed", "whileback/page/parts/page.html"} <= names
    return names


def install(python: Path, distribution: Path, options: list[str]) -> None:
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    call(*pip, "install", "--quiet", "--no-compile", *options, distribution)


def assert_commands(program: Path, folder: Path) -> None:
    (folder / "m.onnx.txt").write_text(MODEL)
    for words, line in COMMANDS.items():
        printed = call(program, *words.split(), folder=folder).splitlines()
        assert line in printed or (printed, line) == ([], "")
    assert "w_grad" in (folder / "page.html").read_text(encoding="utf-8")


def assert_types(python: Path, folder: Path) -> None:
    """The program is right up to its last two lines."""
    (folder / "program.py").write_text(PROGRAM)
    options = ("--strict", "--python-executable", python, "--cache-dir", folder / "cache")
    told = call(sys.executable, "-m", "mypy", *options, "program.py", folder=folder)
    last = len(PROGRAM.splitlines())
    assert re.findall(r"program.py:(\d+): error: .*\[(.*)\]", told) == [
        (str(last - 1), "call-overload"),
        (str(last), "attr-defined"),
    ]
