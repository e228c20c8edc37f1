"""Damages files and makes programs, and tells of what is neither a right answer nor a clear error.

    python -m tests.fuzz --files 10000 --programs 2000

Cases are made of their number and `--seed`. Each runs in a process of its own that has a limit of
memory and of time. What became of it is kept in `--folder`, so that a run that was interrupted goes
on where it was; `--again` repeats the cases that found something.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.harness import Harness, Task


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says; return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=0, metavar="N", help="damaged files")
    parser.add_argument("--programs", type=int, default=0, metavar="N", help="generated programs")
    parser.add_argument("--seed", type=int, default=0, help="makes other cases (0)")
    parser.add_argument("--case", nargs="*", default=[], metavar="KIND-N", help="single cases")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="what is kept")
    parser.add_argument("--processes", type=int, default=1, help="how many cases at a time (1)")
    parser.add_argument("--again", action="store_true", help="repeat cases that found something")
    options = parser.parse_args(argv)
    tasks = [Task.of(name) for name in options.case]
    tasks += [Task("file", number) for number in range(options.files)]
    tasks += [Task("program", number) for number in range(options.programs)]
    harness = Harness(options.folder, options.seed)
    try:
        harness.run(tasks, options.processes, options.again or bool(options.case))
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    finally:
        print(harness.summary(tasks))
    return int(bool(harness.findings(tasks)))


if __name__ == "__main__":
    sys.exit(main())
