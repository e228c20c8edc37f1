"""The loops in `examples/loops` have the gradients that finite differences give."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient
from tests.judge_forward import assert_tangents

import whileback
from whileback.gradient import vjp

FOLDER = Path(__file__).parents[2] / "examples" / "loops"

Load = Any


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports an example as a script of its folder does; forgets it afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(FOLDER)

    def example(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield example
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and FOLDER in map(
            Path, Path(str(sys.modules[name].__file__)).parents
        ):
            del sys.modules[name]


def opened(example: ModuleType) -> ir.Model:
    return ir.from_proto(example.model())


@pytest.mark.parametrize("memory", ["keep", "checkpoint"])
def test_pendulum(load: Load, memory: Any) -> None:
    pendulum = load("pendulum")
    model = opened(pendulum)
    for steps in (0, 1, 30):
        inputs = pendulum.inputs(steps)
        assert_gradient(model, ["end"], ["start", "length"], inputs, memory=memory)


def test_a_long_swing_has_the_same_gradient_with_checkpoints(load: Load) -> None:
    pendulum = load("pendulum")
    runs = []
    for memory in ("keep", "checkpoint"):
        model = vjp(opened(pendulum), "end", ["start", "length"], memory=memory)
        feeds = {**pendulum.inputs(4000), "end_grad": np.float32([1, 0])}
        runs.append(whileback.compile(model)(feeds))
    for name, value in runs[0].items():
        np.testing.assert_allclose(value, runs[1][name], rtol=1e-4)


def test_tangents(load: Load) -> None:
    """Of a pendulum, which keeps nothing for them; of a filter; of an iteration to a tolerance."""
    pendulum, kalman, sinkhorn = map(load, ("pendulum", "kalman", "sinkhorn"))
    assert_tangents(opened(pendulum), ["end"], ["start", "length"], pendulum.inputs(30))
    logs = {"log_drift": np.float32(-2), "log_noise": np.float32(-1)}
    inputs = {"measured": kalman.measurements(20, 0.01, 2.0), **logs}
    assert_tangents(opened(kalman), ["fit"], list(inputs), inputs)
    assert_tangents(opened(sinkhorn), ["total"], ["cost", "have", "want"], sinkhorn.inputs(5))


def test_kalman_filter(load: Load) -> None:
    kalman = load("kalman")
    inputs = {
        "measured": kalman.measurements(20, 0.01, 2.0),
        "log_drift": np.float32(-2),
        "log_noise": np.float32(-1),
    }
    assert_gradient(opened(kalman), ["fit"], list(inputs), inputs, memory="checkpoint")


def test_sinkhorn(load: Load) -> None:
    sinkhorn = load("sinkhorn")
    inputs = sinkhorn.inputs(5)
    assert_gradient(opened(sinkhorn), ["total"], ["cost", "have", "want"], inputs)


def test_sinkhorn_at_its_solution(load: Load) -> None:
    sinkhorn = load("sinkhorn")
    inputs = sinkhorn.inputs(5)
    unrolled = whileback.gradient(opened(sinkhorn), "total", ["cost", "have"])
    expected = whileback.compile(unrolled)(inputs)
    found = whileback.compile(sinkhorn.at_the_solution())(inputs)
    for name in ("cost_grad", "have_grad"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def test_a_solver_that_rejects_steps(load: Load) -> None:
    adaptive = load("adaptive")
    model, inputs = opened(adaptive), adaptive.inputs()
    found = whileback.compile(model)(inputs)
    assert 0 < found["steps"] < found["tries"]
    assert_gradient(model, ["end"], ["start", "stiffness"], inputs, kinks=True)


def test_a_decoder_whose_output_grows(load: Load) -> None:
    decoder = load("decoder")
    model, inputs = opened(decoder), decoder.inputs()
    assert len(whileback.compile(model)(inputs)["written"]) == 16
    assert_gradient(model, ["written"], ["memory", "recur", "write"], inputs)
