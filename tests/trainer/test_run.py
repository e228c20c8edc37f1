"""Runs go on where they were ended, at whatever moment, as if nothing had happened."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboardX.proto import event_pb2
from tests.trainer.models import data, model, trainer
from tools import kill_runs

from whileback import training
from whileback.errors import ArgumentError, FormatError, TrainingError, WhilebackWarning
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that nothing has ended."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run(folder).fit()
    return folder


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
def test_a_run_that_was_ended_goes_on(step: int, tmp_path: Path, whole: Path) -> None:
    with pytest.raises(StoppedError):
        run(tmp_path / "ended", on_step=stop_after(step)).fit()
    run(tmp_path / "ended").fit(resume=True)
    same(tmp_path / "ended", whole)
    assert run(tmp_path / "ended").fit(resume=True).steps == 21


def test_a_run_that_ended_before_its_first_checkpoint(tmp_path: Path, whole: Path) -> None:
    """Such as one that nothing was written of but the log; the same object may go on, too."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / LOG).write_text('{"step": 2}\n')
    run(tmp_path / "log").fit(resume=True)
    same(tmp_path / "log", whole)
    one = run(tmp_path / "same", on_step=stop_after(2))
    with pytest.raises(StoppedError):
        one.fit()
    one.on_step = None
    one.fit(resume=True)
    same(tmp_path / "same", whole)


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


def test_more_epochs_later(tmp_path: Path, whole: Path) -> None:
    run(tmp_path / "longer", 2).fit()
    run(tmp_path / "longer", 3).fit(resume=True)
    same(tmp_path / "longer", whole)


def test_events_that_no_checkpoint_has_seen(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        run(folder, tensorboard=True, on_step=stop_after(2)).fit()
    run(folder, 1, tensorboard=True).fit(resume=True)
    last = events_of(max(folder.glob("events.out.tfevents.*")))
    assert last[""] == [(1, 0.0)]
    assert [step for step, _ in last["train/loss"]] == [2, 4, 6]


@pytest.mark.parametrize("step", [5, 7, 21])
def test_ctrl_c_ends_the_step(step: int, tmp_path: Path, whole: Path) -> None:

    def press(moment: training.Moment) -> None:
        if moment.step == step:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "ended", on_step=press).fit()
    assert read_checkpoint(tmp_path / "ended" / LAST).steps == step
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run(tmp_path / "ended").fit(resume=True)
    same(tmp_path / "ended", whole)


def test_a_run_that_is_killed(tmp_path: Path) -> None:
    """Twice, at random moments; the tool does so fifty times."""
    kill_runs.train(tmp_path / "alone")
    assert kill_runs.trial(tmp_path / "killed", tmp_path / "alone", 2, 0.05, seed=0) == 2


def test_events_for_tensorboard(tmp_path: Path) -> None:
    """Those behind the last checkpoint are purged when a run goes on."""
    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        run(folder, tensorboard=True, on_step=stop_after(5)).fit()
    run(folder, tensorboard=True).fit(resume=True)
    files = sorted(folder.glob("events.out.tfevents.*"))
    assert len(files) == 2
    first, second = (events_of(file) for file in files)
    assert [step for step, _ in first["train/loss"]] == [2, 4]
    assert [step for step, _ in second["train/loss"]] == list(range(4, 21, 2))
    assert second[""] == [(4, 0.0)]
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    losses = [line["train"]["loss"] for line in lines if "train" in line]
    written = [value for _, value in first["train/loss"][:1] + second["train/loss"]]
    np.testing.assert_allclose(written, losses, rtol=1e-6)
    assert [step for step, _ in second["evaluation/loss"]] == [7, 14, 21]


def events_of(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Return steps and numbers by tag, as TensorBoard reads them; beginnings under ""."""
    found: dict[str, list[tuple[int, float]]] = {}
    data = file.read_bytes()
    while data:
        size = int.from_bytes(data[:8], "little")
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        data = data[16 + size :]
        if event.HasField("session_log"):
            found.setdefault("", []).append((event.step, 0.0))
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    text = (
        "Events for TensorBoard need the package tensorboardX, which is not installed. Install it "
        "with: pip install 'whileback[tensorboard]'"
    )
    with pytest.raises(ArgumentError) as caught:
        run(tmp_path / "wanted", tensorboard=True).fit()
    assert str(caught.value) == f"{text}, or leave them out with tensorboard=False."
    with pytest.warns(WhilebackWarning) as warned:
        run(tmp_path / "run", 1, tensorboard=None).fit()
    assert [str(each.message) for each in warned] == [f"{text}. Losses are in log.jsonl alone."]


def test_what_is_no_number_stops_a_run(tmp_path: Path) -> None:
    examples = data()
    examples["x"][7, 1] = np.nan
    one = run(tmp_path / "run", seed=None, batch_size=2, save_every=1)
    one.data = training.Arrays(examples)
    with pytest.raises(TrainingError) as caught:
        one.fit()
    last = tmp_path / "run" / LAST
    assert str(caught.value) == (
        "loss is nan in step 4. Take a smaller learning rate or limit gradients with clip_norm=, "
        f"and see that the data holds no NaN; go on from a checkpoint. The last one is '{last}'."
    )
    found = read_checkpoint(last)
    assert found.steps == 3
    assert all(np.all(np.isfinite(array)) for array in found.state.values())


def test_an_evaluation_that_is_no_number_stops_a_run(tmp_path: Path) -> None:
    examples = data(20, seed=2)
    examples["x"][19, 1] = np.nan
    with pytest.raises(TrainingError) as caught:
        run(tmp_path / "run", evaluation=training.Arrays(examples)).fit()
    last = tmp_path / "run" / LAST
    assert str(caught.value) == (
        "loss of the evaluation is nan after step 7. See that its data holds no NaN, or take a "
        f"smaller learning rate; go on from a checkpoint. The last one is '{last}'."
    )
    assert read_checkpoint(last).steps == 6
    assert "NaN" not in (tmp_path / "run" / LOG).read_text()


def test_a_schedule_counts_updates(tmp_path: Path) -> None:
    """Not the calls that add up gradients for them."""
    step = training.step(model(), "cross-entropy", "sgd", accumulate=3)
    asked: list[int] = []

    def schedule(updates: int) -> float:
        asked.append(updates)
        return 1.0

    one = run(tmp_path / "run", 1, schedule=schedule, evaluation=None)
    one.trainer = training.Trainer(step)
    one.fit()
    assert asked == [0, 0, 0, 1, 1, 1, 2]
    assert one.trainer.updates == 2


@pytest.mark.parametrize("rate", [None, "fast", float("nan"), float("inf"), -0.1, [0.1, 0.2]])
def test_rates_that_are_none(rate: Any) -> None:
    """They leave the parameters as they were."""
    one = trainer()
    before = one.parameters()
    with pytest.raises(ArgumentError) as caught:
        one.step(data(8), rate)
    message = f"learning_rate={rate!r} is no number from 0. Give one, such as 1e-3."
    assert str(caught.value) == message
    assert one.steps == 0
    for name, array in one.parameters().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_schedule_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        run(tmp_path / "run", schedule="cosine")
    assert str(caught.value) == (
        "schedule='cosine' is no function of the number of updates. Give one, such as "
        "training.schedules.cosine(1000)."
    )


def test_metrics(tmp_path: Path) -> None:
    """Means over examples, also where the last batch is smaller."""

    def accuracy(batch: Any, outputs: Any) -> float:
        return float((outputs["p"].argmax(1) == batch["label"]).mean())

    one = run(tmp_path / "run", metrics={"accuracy": accuracy})
    outcome = one.fit()
    batch = data(20, seed=2)
    whole = one.trainer.evaluate(batch)
    assert outcome.evaluation["accuracy"] == pytest.approx(accuracy(batch, whole.outputs))
    assert outcome.evaluation["loss"] == pytest.approx(whole.losses["loss"], rel=1e-5)


def test_errors(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, 1).fit()
    log = (folder / LOG).read_bytes()
    (folder / LOG).write_bytes(log[:-1])
    expected: list[tuple[Callable[[], object], str]] = [
        (
            lambda: run(folder).fit(),
            f"'{folder}' holds a run; go on with --resume (in Python resume=True), or name another "
            "folder",
        ),
        (
            lambda: run(folder, seed=1).fit(resume=True),
            f"'{folder}' was begun with seed=0, but now it is 1: what follows would not be what it "
            "was to be. Go on with the same, or begin another run.",
        ),
        (
            lambda: run(folder).fit(resume=True),
            f"'{folder / LOG}': has {len(log) - 1} bytes, but had {len(log)} when the last "
            "checkpoint was written. Put the file back, or begin another run.",
        ),
        (
            lambda: run(tmp_path / "a" / "b").fit(),
            f"'{tmp_path / 'a' / 'b'}': No such file or directory; check the path and its "
            "permissions",
        ),
        (
            lambda: run(folder, batch_size=0),
            "batch_size=0 is no whole number above 0. Give one.",
        ),
        (
            lambda: run(folder, save_every=0),
            "save_every=0 is no whole number above 0. Give one.",
        ),
        (
            lambda: run(folder, seed=-1),
            "seed=-1 is not from 0 to below 2**64. Give one that is.",
        ),
        (
            lambda: run(tmp_path / "new", evaluation=[{"x": data()["x"]}]).fit(),
            "Model 'model' needs more inputs: 'label' INT64[N]. Pass each one by keyword, or all "
            "in one mapping from names to arrays (on the command line as NAME=VALUE).",
        ),
        (
            lambda: run(tmp_path / "empty", evaluation=[]).fit(),
            "The data for the evaluation has no batches. Give some.",
        ),
        (
            lambda: training.Arrays({"x": np.zeros((3, 2)), "label": np.zeros(4)}),
            "Data needs arrays of the same number of rows, but 'x' has 3, 'label' has 4. Give each "
            "example one row of each array.",
        ),
    ]
    for call, text in expected:
        with pytest.raises((ArgumentError, FormatError)) as caught:
            call()
        assert str(caught.value) == text
    assert (folder / LOG).read_bytes() == log[:-1]
    assert not (tmp_path / "new").exists()


def test_a_checkpoint_of_no_run(tmp_path: Path) -> None:
    one = run(tmp_path / "run")
    (tmp_path / "run").mkdir()
    for position in ({}, {"epoch": 1}, {"epoch": "1"}):
        one.trainer.save(tmp_path / "run" / LAST, position, overwrite=True)
        with pytest.raises(FormatError) as caught:
            one.fit(resume=True)
        assert str(caught.value) == (
            f"'{tmp_path / 'run' / LAST}' is a checkpoint, but of no run. Begin a run in another "
            "folder, or go on by hand with Trainer.restore()."
        )


def test_a_generator_serves_one_epoch(tmp_path: Path) -> None:
    arrays = training.Arrays(data())
    one = run(tmp_path / "run", 2, evaluation=None)
    one.data = (arrays.take(np.arange(5)) for _ in range(3))
    with pytest.raises(ArgumentError) as caught:
        one.fit()
    assert str(caught.value) == (
        "Epoch 1 has no batches. Give data that yields some whenever it is iterated: a list, or an "
        "object with __iter__, but no generator."
    )
    assert read_checkpoint(tmp_path / "run" / LAST).steps == 3
