"""A program of Node.js, with stock ONNX Runtime, makes the losses that the Trainer makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from safetensors.numpy import load_file, save_file
from tests.judge import parse
from tests.trainer import models

from whileback import training

FOLDER = Path(__file__).parents[2] / "examples" / "training"
RUNTIME = FOLDER / "node_modules" / "onnxruntime-node"
NODE = shutil.which("node")

# A recurrence over as many trips as the input says, with dropout in each.
LOOP = """(float[N,4] x, int64 trips) => (float[N,3] z)
    <float[4,3] o = {OUT}, float[4,4] w = {IN}> {
    h = Loop(trips, "", x) <body = trip (int64 i, bool c, float[N,4] v)
                                     => (bool d, float[N,4] u) <float r = {0.1}, bool t = {1}> {
        d = Identity(c)
        p = MatMul(v, w)
        q = Tanh(p)
        u, mask = Dropout(q, r, t)
    }>
    z = MatMul(h, o)
}"""


def loop() -> ir.Model:
    draw = np.random.default_rng(0)
    numbers = (",".join(map(str, draw.normal(size=n).round(2))) for n in (12, 16))
    return parse(LOOP.replace("OUT", next(numbers)).replace("IN", next(numbers)))


def examples(rows: int) -> dict[str, np.ndarray]:
    return {**models.data(rows=rows), "trips": np.array(3)}


def some(data: dict[str, np.ndarray], start: int) -> dict[str, np.ndarray]:
    return {name: each[start : start + 16] if each.ndim else each for name, each in data.items()}


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.skipif(not RUNTIME.is_dir(), reason="run npm install in examples/training")
@pytest.mark.parametrize("model", [models.model(), loop()], ids=["batch normalization", "loop"])
def test_losses_and_parameters(model: ir.Model, tmp_path: Path) -> None:
    step = training.step(model, "cross-entropy", "adamw")
    evaluation = training.evaluation(model, "cross-entropy", step)
    training.write_artifacts(step, evaluation, tmp_path / "art")
    names = {value.name for value in step.graph.inputs}
    data = {name: each for name, each in examples(rows=40).items() if name in names}
    save_file(data, tmp_path / "data.safetensors")
    words = ["art", "data.safetensors", "25", "16", "0.01", "trained.safetensors"]
    run = [str(NODE), FOLDER / "train.mjs", *words]
    got = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    trainer = training.Trainer(step)
    want = [trainer.step(some(data, k * 16 % 40), 0.01)["loss"] for k in range(25)]
    np.testing.assert_allclose([float(line) for line in got.split()], want, 0, 1e-5)
    trained = load_file(tmp_path / "trained.safetensors")
    assert {*trained} == {*trainer.parameters()}
    for name, array in trainer.parameters().items():
        np.testing.assert_allclose(trained[name], array, 0, 1e-5)
    training.export(model, trained)
