"""Runs cases in processes of their own, and keeps what became of them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from tests.corpus.workers import run
from tests.fuzz.files import judge_file
from tests.fuzz.outcome import Outcome
from tests.fuzz.programs import judge_program
from tests.fuzz.seeds import families

__all__ = ["Harness", "Task"]

_MEMORY = 6 * 2**30
_SECONDS = 120
# During these calls a runtime runs a model, and may loop or crash on its own account.
_RUNS = ("check", "checker")
# On a terminal one line is written again and again.
_CLEAR, _END = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")


class Task(NamedTuple):
    """A case: a "file" or a "program", and its number."""

    kind: str
    number: int

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the case of a name such as `file-12`."""
        kind, _, number = name.partition("-")
        return cls(kind, int(number))

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


class Harness:
    """Judges cases, and keeps in a folder what became of each.

    Args:
        folder: where `<seed>.jsonl` and, for each finding, a folder with the files of its case are.
        seed: makes the cases, together with their numbers.
        limit: the seconds that a case may take.
    """

    def __init__(self, folder: Path, seed: int, limit: float = _SECONDS) -> None:
        self._folder, self._seed, self._limit = folder, seed, limit
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = folder / f"{seed}.jsonl"
        self.records: dict[str, dict[str, Any]] = {}
        if self._journal.exists():
            for line in self._journal.read_text().splitlines():
                record = json.loads(line)
                self.records[record["case"]] = record

    def run(self, tasks: Sequence[Task], processes: int = 1, again: bool = False) -> None:
        """Judge all cases of which nothing is known yet, or only what found something, again."""
        left = [task for task in tasks if str(task) not in self.records]
        if again:
            left = [task for task in tasks if str(task) in self.records or task in left]
            left = [t for t in left if self.records.get(str(t), {"findings": [1]})["findings"]]
        seeds = families(Path(tempfile.mkdtemp()))
        with tempfile.TemporaryDirectory() as scratch:
            judge = partial(_judge, seeds, self._seed, Path(scratch))
            start = time.monotonic()
            for task, result in run(judge, left, processes, self._limit, _limited):
                seconds = time.monotonic() - start
                outcome = (
                    self._crashed(task, result, Path(scratch))
                    if isinstance(result, str)
                    else result
                )
                self._keep(task, outcome, seconds, Path(scratch) / str(task))
                start = time.monotonic()
                self._tell(task, tasks)

    def findings(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Return what is known of those cases that found something."""
        known = (self.records.get(str(task)) for task in tasks)
        return [record for record in known if record is not None and record["findings"]]

    def summary(self, tasks: Sequence[Task]) -> str:
        """Return what became of all cases, in a few lines."""
        known = [self.records[str(task)] for task in tasks if str(task) in self.records]
        results = Counter(result for record in known for result in record["calls"].values())
        runtimes = Counter(record["runtime"] for record in known if record["runtime"])
        remarks = Counter(record["remark"] for record in known if record["remark"])
        lines = [
            f"{len(known)} of {len(tasks)} cases, {sum(results.values())} calls: "
            + ", ".join(f"{count} {result}" for result, count in results.most_common()),
            f"{len(self.findings(tasks))} cases found something; "
            f"{sum(runtimes.values())} ended in a runtime",
            f"{sum(record['seconds'] for record in known):.0f} s; at most "
            f"{max((record['megabytes'] for record in known), default=0)} MB",
        ]
        lines += [f"{count} × {what}" for what, count in (runtimes + remarks).most_common()]
        return "\n".join(lines)

    def _crashed(self, task: Task, problem: str, scratch: Path) -> Outcome:
        """Return what is known of a case whose process ended, or had to be ended."""
        note = scratch / f"{task}.note"
        call = note.read_text() if note.exists() else "start"
        outcome = Outcome({call: "ended"})
        if call.startswith(_RUNS):
            outcome.runtime = f"{call}: {problem}"
        else:
            outcome.add(call, problem)
        return outcome

    def _keep(self, task: Task, outcome: Outcome, seconds: float, files: Path) -> None:
        record = {"case": str(task), "seconds": round(seconds, 3), **asdict(outcome)}
        self.records[str(task)] = record
        with self._journal.open("a") as journal:
            journal.write(json.dumps(record) + "\n")
        kept = self._folder / f"{self._seed}-{task}"
        shutil.rmtree(kept, ignore_errors=True)
        if outcome.findings or outcome.runtime:
            files.mkdir(exist_ok=True)
            shutil.copytree(files, kept, symlinks=True)
            for finding in outcome.findings:
                print(f"{_CLEAR}{task}, {finding.call}:\n{finding.problem}\n", flush=True)
        shutil.rmtree(files, ignore_errors=True)

    def _tell(self, task: Task, tasks: Sequence[Task]) -> None:
        if sys.stderr.isatty() or task.number % 100 == 0:
            done = sum(str(each) in self.records for each in tasks)
            found = len(self.findings(tasks))
            print(f"{_CLEAR}{done} of {len(tasks)}: {found} found something", end=_END,
                  file=sys.stderr, flush=True)  # fmt: skip


def _limited() -> None:
    """Limit the memory of this process, and let what runtimes print go nowhere."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _judge(seeds: dict[str, Any], seed: int, scratch: Path, task: Task) -> Outcome:
    random = Random(f"{seed} {task}")
    note = scratch / f"{task}.note"
    folder = scratch / str(task)
    folder.mkdir()
    if task.kind == "file":
        outcome = judge_file(seeds, random, folder, note)
    else:
        outcome = judge_program(random, task.number, folder, note)
    note.unlink(missing_ok=True)
    return outcome
