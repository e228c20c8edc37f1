"""Judges the models of the corpus: `python -m tests.corpus [--column TITLE] [--write FILE] [NAME]`.

Without a name all of them, else those whose name contains it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnxruntime  # noqa: F401
from tests.corpus.cases import cases
from tests.corpus.columns import COLUMNS, Task, verdict
from tests.corpus.table import page
from tests.corpus.verdicts import Verdict
from tests.corpus.workers import run

# Loaded before processes start: files that change meanwhile do not matter.
from whileback.engines import onnxruntime as _runtime  # noqa: F401
from whileback.engines import reference as _reference  # noqa: F401

_SECONDS = 120
_BAD = ("wrong", "refused")
# On a terminal one line is written again and again.
_CLEAR, _END = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")


def main() -> int:
    """Run what the command line says; return how many gradients are wrong or refused, at most 1."""
    titles = [column.title for column in COLUMNS]
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="part of the names of models")
    parser.add_argument("--column", action="append", choices=titles, help="what to judge: all")
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="all cores")
    options = parser.parse_args()
    columns = [c for c in COLUMNS if options.column is None or c.title in options.column]
    tasks = [(column, name) for column in columns for name in cases() if options.name in name]
    try:
        verdicts = _judge(tasks, options.processes)
    except KeyboardInterrupt:
        print("\nInterrupted; nothing is written.", file=sys.stderr)
        return 130
    if options.write:
        options.write.write_text(page(verdicts), encoding="utf-8")
    return int(any(v is not None and v.status in _BAD for v in verdicts.values()))


def _judge(tasks: Sequence[Task], processes: int) -> dict[Task, Verdict | None]:
    """Judge all, tell of those that are not as they should be, and return them in order."""
    found: dict[Task, Verdict | None] = {}
    counts = Counter[str]()
    for task, result in run(verdict, tasks, processes, _SECONDS):
        found[task] = each = Verdict("wrong", result) if isinstance(result, str) else result
        counts["not in that opset" if each is None else each.status] += 1
        if each is not None and each.status in _BAD:
            print(f"{_CLEAR}{task[1]}, {task[0].title}, {each.status}: {each.detail}\n", flush=True)
        if sys.stderr.isatty() or len(found) % 500 == 0 or len(found) == len(tasks):
            listed = ", ".join(f"{count} {status}" for status, count in counts.most_common())
            print(f"{_CLEAR}{len(found)} of {len(tasks)}: {listed}", end=_END, file=sys.stderr)
    return {task: found[task] for task in tasks}


if __name__ == "__main__":
    sys.exit(main())
