"""Models that learn something small."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir
from tests.judge import parse

from whileback import training

Arrays = dict[str, Any]

# Batch normalization, whose statistics are kept as well.
MODEL = """(float[N,4] x) => (float[N,3] p)
    <float[4] s = {1,1,1,1}, float[4] c = {0,0,0,0}, float[4] m = {0,0,0,0}, float[4] v = {1,1,1,1},
     float[4,3] w, float[3] b = {0,0,0}> {
    n = BatchNormalization(x, s, c, m, v)
    z = Gemm(n, w, b)
    p = Softmax(z)
}"""


def model() -> ir.Model:
    """Return a classifier of three classes with weights drawn at random."""
    made = parse(MODEL.replace("float[4,3] w,", "float[4,3] w = {" + ",".join(["0"] * 12) + "},"))
    weights = np.random.default_rng(0).normal(size=(4, 3)).astype("f")
    made.graph.initializers["w"].const_value = ir.tensor(weights, name="w")
    return made


def data(rows: int = 50, seed: int = 1) -> Arrays:
    """Return examples whose class is the largest of the first three numbers."""
    x = np.random.default_rng(seed).normal(2, 3, (rows, 4)).astype("f")
    return {"x": x, "label": x[:, :3].argmax(1)}


def trainer(engine: str = "onnxruntime", optimizer: str = "adam") -> training.Trainer:
    """Return a trainer of the classifier."""
    step, evaluation = graphs(optimizer)
    return training.Trainer(step, engine, evaluation=evaluation)


@cache
def graphs(optimizer: str) -> tuple[ir.Model, ir.Model]:
    """Return the step and what evaluates it."""
    step = training.step(model(), "cross-entropy", optimizer)
    return step, training.evaluation(model(), "cross-entropy", step)
