"""Runs go on where they were ended, at whatever moment, as if nothing had happened."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.models import data, trainer

from whileback import training
from whileback.trainer.checkpoints import read_checkpoint
from whileback.trainer.run import BEST, LAST, LOG


def run(folder: Path, epochs: int = 3, **settings: Any) -> training.Run:
    """Return a run of seven steps for each epoch."""
    given: dict[str, Any] = {
        "learning_rate": 0.5,
        "batch_size": 8,
        "schedule": lambda step: 1 / (1 + step / 2),
        "evaluation": training.Arrays(data(20, seed=2)),
        "log_every": 2,
        "save_every": 3,
        "tensorboard": False,
    }
    examples = training.Arrays(data())
    return training.Run(trainer(), examples, folder, epochs=epochs, **given | settings)


def same(folder: Path, other: Path) -> None:
    """Compare checkpoints and logs of two runs, to the last bit."""
    assert (folder / LOG).read_text() == (other / LOG).read_text()
    for name in (LAST, BEST):
        assert (folder / name).read_bytes() == (other / name).read_bytes()


class StoppedError(Exception):
    """Ends a run as if it was killed."""


def stop_after(step: int) -> Callable[[training.Moment], None]:
    def stop(moment: training.Moment) -> None:
        if moment.step == step:
            raise StoppedError

    return stop


def test_what_a_run_leaves(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run").fit()
    assert outcome.steps == 21
    assert {file.name for file in (tmp_path / "run").iterdir()} == {LAST, BEST, LOG}
    lines = [json.loads(line) for line in (tmp_path / "run" / LOG).read_text().splitlines()]
    trained = [line for line in lines if "train" in line]
    assert [line["step"] for line in trained] == list(range(2, 21, 2))
    assert [line["epoch"] for line in trained] == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert trained[1]["train"]["learning_rate"] == 0.5 / 2.5
    means = [line["mean"]["loss"] for line in lines if "mean" in line]
    evaluations = [line["evaluation"]["loss"] for line in lines if "evaluation" in line]
    assert (means[-1], evaluations[-1]) == (outcome.losses["loss"], outcome.evaluation["loss"])
    assert outcome.best == min(evaluations)
    assert means[2] < means[0]
    assert read_checkpoint(tmp_path / "run" / LAST).steps == 21


@pytest.mark.parametrize("step", [1, 3, 6, 7, 8, 20])
def test_a_run_that_was_ended_goes_on(step: int, tmp_path: Path) -> None:
    run(tmp_path / "whole").fit()
    with pytest.raises(StoppedError):
        run(tmp_path / "ended", on_step=stop_after(step)).fit()
    run(tmp_path / "ended").fit(resume=True)
    same(tmp_path / "ended", tmp_path / "whole")
    assert run(tmp_path / "ended").fit(resume=True).steps == 21


def test_batches_as_they_come(tmp_path: Path) -> None:
    arrays = training.Arrays(data())
    batches = [arrays.take(np.arange(start, start + 10)) for start in range(0, 50, 10)]
    settings: dict[str, Any] = {"evaluation": batches, "save_every": None}
    for folder, steps in (("whole", 0), ("ended", 8)):
        one = run(tmp_path / folder, on_step=stop_after(steps), **settings)
        one.data = batches
        if steps:
            with pytest.raises(StoppedError):
                one.fit()
            one = run(tmp_path / folder, **settings)
            one.data = batches
        assert one.fit(resume=True).steps == 15
    same(tmp_path / "ended", tmp_path / "whole")


def test_more_epochs_later(tmp_path: Path) -> None:
    run(tmp_path / "whole", 4).fit()
    run(tmp_path / "longer", 2).fit()
    run(tmp_path / "longer", 4).fit(resume=True)
    same(tmp_path / "longer", tmp_path / "whole")


@pytest.mark.parametrize("step", [5, 7, 21])
def test_ctrl_c_ends_the_step(step: int, tmp_path: Path) -> None:
    run(tmp_path / "whole").fit()

    def press(moment: training.Moment) -> None:
        if moment.step == step:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "ended", on_step=press).fit()
    assert read_checkpoint(tmp_path / "ended" / LAST).steps == step
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run(tmp_path / "ended").fit(resume=True)
    same(tmp_path / "ended", tmp_path / "whole")
