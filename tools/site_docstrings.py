"""An extension of Griffe: examples in docstrings are blocks of code in the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From the first prompt to the next empty line.
EXAMPLE = re.compile(r"^(?=>>> )(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Examples(griffe.Extension):
    """Put a fence around each example, without what only `doctest` reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was read."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    code = re.sub(r" *# doctest: .*", "", match[1])
    return f"```pycon\n{code}\n```"
