"""A bounded run: damaged files and generated programs find nothing, and faults would be found."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz import harness
from tests.fuzz.harness import Harness, Task
from tests.fuzz.outcome import Outcome, Trial

from whileback.errors import FormatError


@pytest.mark.parametrize("what", [("--files", "200"), ("--programs", "15")])
def test_nothing_is_found(what: tuple[str, str], tmp_path: Path) -> None:
    """In a process of its own, since runtimes have threads, which processes do not inherit."""
    command = [sys.executable, "-m", "tests.fuzz", *what, "--folder", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases found something" in done.stdout
    assert f"{what[1]} of {what[1]} cases" in done.stdout


def judged(task: Task) -> Outcome:
    """A case of a kind that goes wrong in some way."""
    trial = Trial(Path(os.devnull))
    match task.kind:
        case "crash":
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "memory":
            trial.attempt("call", np.ones, 2**40)
        case "error":
            trial.attempt("call", {}.__getitem__, "x")
        case "raw":
            trial.attempt("call", refuse, "'NoneType' object has no attribute 'shape'")
        case "refused":
            trial.attempt("call", refuse, "is empty; write it again")
    return trial.outcome


def refuse(message: str) -> None:
    raise FormatError(message)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("crash", "The process ended with code 3."),
        ("hang", "It takes longer than 1 s."),
        ("memory", "MemoryError"),
        ("error", "KeyError: 'x'"),
        ("raw", "FormatError: 'NoneType'"),
        ("refused", ""),
        ("fine", ""),
    ],
)
def test_what_goes_wrong_is_found(
    kind: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "families", lambda _: {})
    monkeypatch.setattr(harness, "_judge", lambda seeds, seed, scratch, task: judged(task))
    run = Harness(tmp_path, 0, limit=1)
    tasks = [Task(kind, 0), Task("fine", 1)]
    run.run(tasks)
    found = [each["problem"] for record in run.findings(tasks) for each in record["findings"]]
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)
    assert len(run.records) == 2


def test_a_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "families", lambda _: {})
    calls = tmp_path / "calls"

    def judge(_seeds: object, _seed: int, _scratch: Path, task: Task) -> Outcome:
        with calls.open("a") as file:
            file.write(f"{task} ")
        return judged(task)

    monkeypatch.setattr(harness, "_judge", judge)
    first, more = Task("error", 0), Task("fine", 1)
    Harness(tmp_path, 0).run([first])
    Harness(tmp_path, 0).run([first, more])
    Harness(tmp_path, 0).run([first, more], again=True)
    assert calls.read_text().split() == ["error-0", "fine-1", "error-0"]
