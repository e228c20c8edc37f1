"""Schedules: the rates are those of PyTorch's schedulers, as recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whileback.errors import ArgumentError
from whileback.training.schedules import (
    SCHEDULES,
    Schedule,
    cosine,
    cosine_restarts,
    exponential,
    linear,
    one_cycle,
    plateau,
    polynomial,
    schedule_named,
    step_decay,
    warmup,
)

DATA = np.load(Path(__file__).parent / "data" / "schedules.npz")
CASES: dict[str, Schedule] = {
    "constant": schedule_named("constant"),
    "linear": linear(40, 0.2, 0.9),
    "step": step_decay(7, 0.6),
    "step-list": step_decay([31, 5, 30], 0.3),
    "exponential": exponential(0.95),
    "polynomial": polynomial(50, 1.7),
    "cosine": cosine(59, end=0.02),
    "cosine-restarts": cosine_restarts(13, end=0.2),
    "cosine-restarts-growing": cosine_restarts(6, growth=2),
    "one-cycle": one_cycle(60),
    "one-cycle-linear": one_cycle(60, rise=0.45, divide=10, final_divide=50, anneal="linear"),
    "warmup": warmup(10, cosine(50), start=0.1),
}
PLATEAU: dict[str, dict[str, Any]] = {
    "plateau": {"patience": 3},
    "plateau-max": {
        "factor": 0.5,
        "patience": 2,
        "mode": "max",
        "threshold": 0.05,
        "cooldown": 2,
        "smallest": 0.04,
    },
}


@pytest.mark.parametrize("name", CASES)
def test_rates(name: str) -> None:
    found = [CASES[name](step) for step in range(len(DATA[name]))]
    np.testing.assert_allclose(found, DATA[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PLATEAU)
def test_plateau(name: str) -> None:
    metrics = DATA["metrics"].tolist()
    found = [plateau(metrics[: count + 1], **PLATEAU[name]) for count in range(len(metrics))]
    assert len(set(found)) > 3
    np.testing.assert_allclose(found, DATA[name], rtol=1e-9)


def test_every_schedule_is_recorded() -> None:
    assert set(DATA.files) == {*CASES, *PLATEAU, "metrics"}
    assert set(SCHEDULES) <= set(CASES)


@pytest.mark.parametrize("name", ["linear", "polynomial", "cosine", "one-cycle"])
def test_the_last_factor_stays(name: str) -> None:
    schedule = schedule_named(name, steps=10)
    assert schedule(10) == schedule(11) == schedule(10**9) < 1e-3


def test_far_steps_cost_nothing() -> None:
    assert cosine_restarts(1000, growth=2)(10**15) <= 1
    assert cosine_restarts(10)(10**15) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear(0), "linear has steps=0. Give a number above 0."),
        (lambda: step_decay(-1), "step has every=-1. Give a number above 0."),
        (lambda: polynomial(10, 0.0), "polynomial has power=0.0. Give a number above 0."),
        (lambda: cosine(float("nan")), "cosine has steps=nan. Give a number above 0."),
        (lambda: cosine_restarts(5, 0), "cosine-restarts has growth=0. Give a number above 0."),
        (lambda: one_cycle(10, rise=2), "one-cycle has rise=2. Give a part from 0 to 1."),
        (
            lambda: one_cycle(10, anneal="cos"),
            "one-cycle has anneal='cos'. Give 'cosine' or 'linear'.",
        ),
        (lambda: cosine(5)(-1), "step=-1 is below 0. Steps count from 0."),
        (
            lambda: plateau([1.0], factor=1.0),
            "plateau has factor=1.0. Give one above 0 and below 1.",
        ),
        (lambda: plateau([1.0], mode="low"), "plateau has mode='low'. Give 'min' or 'max'."),
        (
            lambda: schedule_named("cosin", steps=5),
            "schedule='cosin' is unknown; did you mean 'cosine' or 'cosine-restarts'?",
        ),
        (
            lambda: schedule_named("cosine", step=5),
            "Schedule 'cosine' has no setting 'step'; did you mean 'steps'?",
        ),
        (
            lambda: schedule_named("cosine"),
            "Schedule 'cosine' needs steps=, which is not given.",
        ),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message
