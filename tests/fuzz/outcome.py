"""What became of one case, call by call."""

from __future__ import annotations

import re
import resource
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from whileback.errors import WhilebackError

__all__ = ["Finding", "Outcome", "Trial"]

R = TypeVar("R")

# What no message of ours would say: words of Python, and of runtimes, that leaked out.
_RAW = re.compile(
    r"Traceback|NoneType|object has no attribute|object at 0x|index out of range|unhashable|"
    r"not subscriptable|unexpected keyword|positional argument|values to unpack|"
    r"\[ONNXRuntimeError\]|std::|^'[^']*'$|^$"
)
_LONGEST = 20000


@dataclass(frozen=True)
class Finding:
    """What should not have happened: during which call, and what was raised."""

    call: str
    problem: str


@dataclass
class Outcome:
    """What the calls of a case came to.

    Attributes:
        calls: for each call "ok", or the class of its error.
        findings: what is neither a right answer nor a clear error.
        remark: what else is to be said of it.
        runtime: how a runtime ended the process, or had to be ended, as it ran a valid model.
        megabytes: the most memory that the process has had so far.
    """

    calls: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    remark: str = ""
    runtime: str = ""
    megabytes: int = 0

    def add(self, call: str, problem: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(call, problem))


class Trial:
    """Makes the calls of one case; `note` is a file that names the one at work, if it crashes."""

    def __init__(self, note: Path) -> None:
        self.outcome = Outcome()
        self._note = note

    def attempt(self, call: str, function: Callable[..., R], *args: Any, **kwargs: Any) -> R | None:
        """Return what a function returns, or None after an error, which is noted."""
        self._note.write_text(call)
        result = None
        try:
            result = function(*args, **kwargs)
            self.outcome.calls[call] = "ok"
        except WhilebackError as error:
            self.outcome.calls[call] = type(error).__name__
            if _RAW.search(str(error)) or len(str(error)) > _LONGEST:
                self.outcome.add(call, f"{type(error).__name__}: {error}"[:2000])
        except Exception as error:
            self.outcome.calls[call] = "finding"
            self.outcome.add(call, "".join(traceback.format_exception(error)[-8:])[-3000:])
        self.outcome.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return result
