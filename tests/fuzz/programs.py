"""One generated program: every way to its derivatives and every engine gives the same numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx_ir as ir
from tests.fuzz.nets import judge_net
from tests.fuzz.outcome import Outcome, Trial
from tests.judge import assert_gradient, parse
from tests.random_models import WRT, random_model

from whileback.engines import compile
from whileback.gradient import jvp, vjp

__all__ = ["judge_program"]

Arrays = dict[str, np.ndarray]
SHAPES = {"x": (2,), "w": (2,), "W": (2, 2), "table": (3, 2)}


def judge_program(random: Random, number: int, folder: Path, note: Path) -> Outcome:
    """Judge a program: of five, one is a net of Caffe2's; of eight models, one runs on XLA."""
    trial = Trial(note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if number % 5 == 4:
            judge_net(trial, number, folder)
        else:
            _model(trial, random, number, folder)
    return trial.outcome


def _model(trial: Trial, random: Random, number: int, folder: Path) -> None:
    text = random_model(random)
    (folder / "m.onnx.txt").write_text(text)
    flags = {"n": random.randint(0, 3), "m": random.randint(0, 2), "flag": random.random() < 0.75}
    inputs: dict[str, Any] = {name: np.array(value) for name, value in flags.items()}
    inputs |= {"x": [0.5, -1.25]}
    (folder / "inputs.txt").write_text(repr(inputs))
    memory = random.choice((None, None, None, "recompute", "checkpoint", "keep"))
    options = {"second_order": number % 10 == 0, "memory": memory, "seed": number}
    trial.attempt("gradient", _gradient, trial, text, inputs, options)
    model, rng = parse(text), np.random.default_rng(number)
    own = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    own["y_grad"] = rng.normal(size=(2,))
    tangents = {f"{name}_tangent": rng.normal(size=shape) for name, shape in SHAPES.items()}
    given = {name: _typed(array, model) for name, array in (own | tangents).items()}
    given |= {name: np.array(value) for name, value in flags.items()}
    pullback = trial.attempt("vjp", vjp, model, ["y"], WRT)
    if pullback is None:
        return
    back = trial.attempt("vjp, run", _run, pullback, given)
    if back is None:
        return
    trial.attempt("jvp", _forward, model, given, back)
    others = ["reference", *(["xla"] if number % 7 == 0 else [])]
    for engine in others:
        trial.attempt(f"vjp on {engine}", _same, pullback, given, back, engine)
    for way in ("keep", "recompute", "checkpoint"):
        if random.random() < 0.3:
            trial.attempt(f"memory, {way}", lambda way=way: _same(
                vjp(model, ["y"], WRT, memory=way), given, back, "onnxruntime"))  # fmt: skip


def _gradient(trial: Trial, text: str, inputs: Any, options: dict[str, Any]) -> None:
    """Compare with finite differences; where terms cancel, only FLOAT's rounding may be wrong."""
    try:
        assert_gradient(text, ["y"], WRT, inputs, **options)
    except AssertionError:
        if "double" in text:
            raise
        assert_gradient(text.replace("float", "double").replace("to = 1>", "to = 11>"), ["y"], WRT,
                        inputs, **options)  # fmt: skip
        trial.outcome.remark = "terms cancel in FLOAT, and the gradient in DOUBLE is right"


def _typed(array: np.ndarray, model: ir.Model) -> np.ndarray:
    return array.astype(model.graph.inputs[0].dtype.numpy())


def _run(model: ir.Model, given: Arrays, engine: str = "onnxruntime") -> Arrays:
    single = {"threads": 1} if engine == "onnxruntime" else {}
    compiled = compile(model, engine, **single)
    return compiled({name: given[name] for name in compiled.inputs})


def _same(model: ir.Model, given: Arrays, want: Arrays, engine: str) -> None:
    """Assert that an engine gives the same numbers."""
    found = _run(model, given, engine)
    tolerance = 1e-9 if want["y"].dtype == np.float64 else 3e-4
    for name, value in want.items():
        np.testing.assert_allclose(found[name], value, tolerance, tolerance / 10, err_msg=name)


def _forward(model: ir.Model, given: Arrays, back: Arrays) -> None:
    """Assert that ȳ·(J·t), of the way forward, is (ȳ·J)·t, of the way back."""
    found = _run(jvp(model, ["y"], WRT), given)
    assert found["y_tangent"].shape == found["y"].shape
    there = np.sum(given["y_grad"].astype(float) * found["y_tangent"])
    terms = [given[f"{name}_tangent"].astype(float) * back[f"{name}_grad"] for name in WRT]
    size = sum(np.sum(np.abs(term)) for term in terms) + 1e-3
    tolerance = 1e-9 if found["y"].dtype == np.float64 else 1e-4
    np.testing.assert_allclose(there, sum(map(np.sum, terms)), rtol=0, atol=tolerance * size)
