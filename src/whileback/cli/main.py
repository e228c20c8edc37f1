"""Runs one command and turns what goes wrong into a line on stderr and an exit status."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from whileback.cli.interrupt import INTERRUPTED, interruptible
from whileback.cli.parser import parse
from whileback.errors import WhilebackError, WhilebackWarning, why

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
    _open_streams()
    failed = 1
    try:
        with _plain_warnings():
            arguments = parse(sys.argv[1:] if argv is None else argv)
            failed = arguments.failed
            with interruptible(arguments.presses):
                status: int = arguments.command(arguments)
            sys.stdout.flush()
        return status
    except WhilebackError as error:
        print(f"error: {error}", file=sys.stderr)
        return failed
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return _BROKEN_PIPE
    except OSError as error:
        _drop_output()
        what = "the output" if error.filename is None else f"'{error.filename}'"
        print(f"error: {what}: {why(error)}", file=sys.stderr)
        return failed


def _drop_output() -> None:
    """Let what is still to be written go nowhere: Python flushes stdout once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Let what is said go nowhere where a stream is closed, as `>&-` closes stdout."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115


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
