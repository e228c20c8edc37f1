"""The blocks of code of a page, and what becomes of each: it is run, or it is text.

* `console`: commands after `$ `, which are run; below each the text it prints, which is compared.
* `sh`: commands. They are run, and must succeed; those of pip and make are only looked up.
* `python`: run in one namespace for each page, from the first block to the last.
* `text` and what else `SHOWN` names: shown, not run.

A block that begins with the comment `# Not run` is not run, for the reason that the comment tells
the reader. One that names a package of `OPTIONAL` runs where that is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whileback.cli import main

ROOT = Path(__file__).parents[2]
SHOWN = {"text", "html", "js", "json"}
OPTIONAL = {"torch"}
FENCE = re.compile(r"^( *)(```+)(\S*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")
# How far numbers may be from those on a page, relatively and in all: machines round otherwise.
COMPUTED = {"check": (1e-4, 1e-6), "run": (1e-5, 1e-7)}
# Runs one command and returns its exit status and what it printed.
Runner = Callable[[str], tuple[int, str]]


@dataclass(frozen=True)
class Block:
    """A block of code: its kind, its text, and in which line of the page that begins."""

    kind: str
    code: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether it is to be run here."""
        words = set(re.findall(r"\w+", self.code))
        missing = {name for name in OPTIONAL & words if importlib.util.find_spec(name) is None}
        return self.kind not in SHOWN and not missing and not self.code.startswith("# Not run")


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page, from its first to its last."""
    return [
        Block(match[3], dedent(match[4], len(match[1])), 2 + text.count("\n", 0, match.start()))
        for match in FENCE.finditer(text)
    ]


def dedent(text: str, spaces: int) -> str:
    return "".join(line[spaces:] or "\n" for line in text.splitlines(keepends=True))


def run_page(name: str, text: str, scope: dict[str, Any], run: Runner) -> None:
    """Run the blocks of a page, with the names in `scope`, which Python's blocks add to."""
    for block in blocks(text):
        if not block.runs:
            continue
        if block.kind == "python":
            # Empty lines before it give the lines of a traceback the numbers they have in the page.
            exec(compile("\n" * (block.line - 1) + block.code, name, "exec"), scope)
        elif block.kind == "console":
            run_console(block.code, run)
        else:
            for command in block.code.replace("\\\n", " ").strip().splitlines():
                status, printed = run(command)
                assert status == 0, f"{name}: {command}\n{printed}"


def run_console(code: str, run: Runner) -> None:
    """Run the commands of a block, and compare what each prints with what stands below it."""
    status, checked = 0, True
    for step in ("\n" + code).split("\n$ ")[1:]:
        command, _, expected = step.partition("\n")
        if command == "echo $?":
            assert status == int(expected)
            checked = True
            continue
        assert checked, "a command that fails is followed by `echo $?`, or prints its error"
        status, printed = run(command)
        checked = status == 0 or "error: " in expected
        assert_alike(printed, expected, command)


def assert_alike(printed: str, expected: str, command: str) -> None:
    """Compare texts; of what is computed, words and numbers; of what is measured, some words."""
    kind = command.split()[1] if command.startswith("whileback ") else ""
    texts = [text.rstrip("\n") for text in (printed, expected)]
    if kind not in {*COMPUTED, "profile"}:
        assert texts[0] == texts[1], command
        return
    if kind == "profile":
        texts = [text.partition("\n")[0] for text in texts]
    words, wanted = (NUMBER.sub("#", text).split() for text in texts)
    assert words == wanted, command
    if kind in COMPUTED:
        numbers = [np.array(NUMBER.findall(text), float) for text in texts]
        relative, absolute = COMPUTED[kind]
        np.testing.assert_allclose(*numbers, relative, absolute, err_msg=command)


def run_command(command: str, printed: Callable[[], str]) -> tuple[int, str]:
    """Run one command line, whileback's own in this process."""
    words = shlex.split(command, comments=True)
    if words[0] == "mkdir" or set(words) & {">", "|"}:
        words = ["sh", "-c", command]
    match words[:1]:
        case ["whileback"]:
            return exit_status(words[1:]), printed()
        case ["pip"]:
            assert_known_extras(command)
            return 0, ""
        case ["make"]:
            assert re.search(f"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                command
            )
            return 0, ""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        words,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def exit_status(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def assert_known_extras(command: str) -> None:
    """Judge `pip install 'whileback[a,b]'` without installing anything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for named in re.findall(r"whileback\[(.*?)\]", command):
        assert set(named.split(",")) <= set(project["optional-dependencies"]), command
