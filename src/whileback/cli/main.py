"""Runs one command and turns what goes wrong into a line on stderr and an exit status."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from whileback.cli.interrupt import INTERRUPTED, interruptible
from whileback.cli.parser import parse
from whileback.errors import WhilebackError, WhilebackWarning

__all__ = ["main"]

_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, those of the process by default.

    Returns the exit status: 0; 1 for an error; 130 after Ctrl-C; 141 if the reader of the output
    went away. A wrong call exits with status 2. Of `check` and `diff`, 1 says that a gradient is
    wrong or models differ, and 2 that something failed, so that it is not known.
    """
    # onnx-ir logs what is odd about a model; what matters of that is said by our own errors.
    logging.getLogger("onnx_ir").addHandler(logging.NullHandler())
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        with _plain_warnings(), interruptible(arguments.presses):
            status: int = arguments.command(arguments)
            sys.stdout.flush()
        return status
    except WhilebackError as error:
        print(f"error: {error}", file=sys.stderr)
        failed: int = arguments.failed
        return failed
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more when it ends, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print our own warnings as one line each, without the place in the code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, WhilebackWarning):
                print(f"warning: {message}", file=sys.stderr)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.simplefilter("always", WhilebackWarning)
        yield
