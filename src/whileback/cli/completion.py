"""What completes words of the command line in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from whileback.errors import ArgumentError

__all__ = ["SHELLS", "completion"]

SHELLS = ("bash", "zsh", "fish")
# What stands for a file in the help of an argument.
_FILES = ("FILE", "MODEL", "NET", "INIT", "A", "B")


def completion(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """`whileback completion`: print what a shell reads to complete commands, options and files.

    Raises: ArgumentError if the package shtab, which writes it, is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise ArgumentError(
            "completion needs the package shtab, which is not installed. Install it with: "
            "pip install 'whileback[completion]'"
        ) from error
    for action in _actions(parser):
        if str(action.metavar).partition(".")[0] in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield all arguments, those of each command too."""
    for action in parser._actions:  # There is no public way to them.
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                command.fill()
                yield from _actions(command)
