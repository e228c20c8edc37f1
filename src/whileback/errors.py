"""Every exception that whileback raises on purpose.

```
WhilebackError
├── FormatError             the file or message cannot be read or written
│   └── NetDefError         a Caffe2 net is malformed; names operator and blob
├── GraphError              the graph breaks a rule of its format
├── UnsupportedError        valid, but outside of what whileback does
│   └── NoGradientError     an operator on the gradient's path has no rule
├── ArgumentError           the call is wrong (also a ValueError)
├── TrainingError           training cannot go on: its loss is no finite number
└── EngineError             the runtime refused or failed (its own error is chained)
```

A message says what is wrong, where, why, and what to do. Values are quoted, types look like
`FLOAT[B,4]`, operators like `ai.onnx@21::Loop`.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "EngineError",
    "FormatError",
    "GraphError",
    "NetDefError",
    "NoGradientError",
    "TrainingError",
    "UnsupportedError",
    "WhilebackError",
    "WhilebackWarning",
    "nearest",
    "why",
]


class WhilebackError(Exception):
    """Base of every error that whileback raises on purpose."""


class FormatError(WhilebackError):
    """A file or message cannot be read or written."""


class NetDefError(FormatError):
    """A Caffe2 net is malformed; the message names the operator and the blob."""


class GraphError(WhilebackError):
    """A graph breaks a rule of its format: a cycle, an unknown name, a wrong type."""


class UnsupportedError(WhilebackError):
    """A valid model asks for something that whileback does not do."""


class NoGradientError(UnsupportedError):
    """Operators on the way of the gradient have no rule; the message lists all of them."""


class ArgumentError(WhilebackError, ValueError):
    """A call has a wrong argument: an unknown name, a type that has no gradient."""


class TrainingError(WhilebackError):
    """Training cannot go on: a loss or a parameter is NaN or infinite."""


class EngineError(WhilebackError):
    """A runtime refused or failed to run a model; its own error is chained.

    Attributes:
        node: the name of the node at fault, empty if the runtime does not tell.
        reason: what is wrong with what the node is given; empty if the runtime lacks its operator
            for the types.
    """

    def __init__(self, message: str, node: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.reason = reason


class WhilebackWarning(UserWarning):
    """Something is probably not what the caller meant, such as a gradient that is always zero."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the three nearest of the `known` names, or some of them.

    >>> nearest("los", ["loss", "w", "x"])
    "did you mean 'loss'?"
    >>> nearest("Dense_1", ["encoder/Dense_0/weight:0", "encoder/Dense_1/weight:0"])
    "did you mean 'encoder/Dense_1/weight:0'?"
    """
    candidates = list(known)
    close = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    close = close or _around(name, candidates)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    # An ellipsis takes as much room as the last one of four.
    shown = candidates if len(candidates) <= 4 else [*candidates[:3]]
    more = ", …" if len(candidates) > len(shown) else ""
    return f"there are {len(candidates)}: {', '.join(map(repr, shown))}{more}"


def _around(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three names that have this one, but for its wildcards, as a part."""
    part = name.strip("*").lower()
    return [each for each in known if len(part) > 2 and part in each.lower()][:3]


def why(error: OSError) -> str:
    """Return what the system says of a file that cannot be read or written, and what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "make room there" if full else "check the path and its permissions"
    return f"{error.strerror or error}; {remedy}"
