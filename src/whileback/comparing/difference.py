"""What changed from one model to another, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Change", "Difference", "Kind", "Part"]

Kind = Literal["added", "removed", "changed"]
Part = Literal["model", "input", "output", "initializer", "node", "function"]

_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_SECTIONS: tuple[tuple[str, tuple[Part, ...]], ...] = (
    ("model", ("model", "function")),
    ("inputs and outputs", ("input", "output")),
    ("weights and constants", ("initializer",)),
    ("nodes", ("node",)),
)
# Of each section so many changes are shown first, of each change so many details, and of each line
# so many letters.
_SHOWN = 8
_DETAILS = 3
_WIDTH = 94


@dataclass(frozen=True)
class Change:
    """One thing that was added, removed, or changed.

    Attributes:
        kind: which of these.
        part: what it is.
        name: its name in the first model, or in the second one if it was added.
        text: what it is, on a line.
        where: the bodies around it, such as `loop/body`; empty in the main graph.
        details: how it changed.
        numbers: of an initializer, how far its values are off: `changed` of `size` elements,
            `relative` (norm of the difference by the norm of what was there) and `largest`.
    """

    kind: Kind
    part: Part
    name: str
    text: str
    where: str = ""
    details: tuple[str, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain data, as `whileback diff --json` prints it."""
        return {**vars(self), "details": list(self.details)}

    def lines(self, all_details: bool) -> Iterator[str]:
        """Yield the change as text, a detail a line."""
        yield f"{_MARKS[self.kind]} {self.text}"
        shown = self.details if all_details else self.details[:_DETAILS]
        yield from (f"    {detail}" for detail in shown)
        if len(shown) < len(self.details):
            yield f"    … {len(self.details) - len(shown)} more"


@dataclass(frozen=True)
class Difference:
    """What changed from one model to another.

    Attributes:
        changes: all of it.
        same: how many initializers and nodes, those of bodies included, did not change.
        renamed: how many values inside of the model have other names, which is no change.
    """

    changes: tuple[Change, ...]
    same: Mapping[str, int]
    renamed: int

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing changed but names inside of the model."""
        return not self.changes

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain data, as `whileback diff --json` prints it."""
        return {
            "same": self.is_empty,
            "unchanged": dict(self.same),
            "renamed": self.renamed,
            "changes": [change.to_dict() for change in self.changes],
        }

    def to_text(self, everything: bool = False) -> str:
        """Return the difference as text: one screen of it, or everything."""
        lines: list[str] = []
        for title, parts in _SECTIONS:
            changes = [change for change in self.changes if change.part in parts]
            if changes:
                lines.append(f"{title}: {self._counts(changes, parts)}")
                lines += _section(changes, everything)
        if self.is_empty:
            lines.append("no difference")
        if self.renamed:
            what = (
                "value inside has another name"
                if self.renamed == 1
                else "values inside have other names"
            )
            lines.append(f"{self.renamed} {what}, which changes nothing")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    def _counts(self, changes: Sequence[Change], parts: tuple[Part, ...]) -> str:
        counts = Counter[str](change.kind for change in changes)
        words = [f"{counts[kind]} {kind}" for kind in _MARKS if counts[kind]]
        words += [f"{self.same[part]} the same" for part in parts if part in self.same]
        return ", ".join(words)


def _section(changes: Sequence[Change], everything: bool) -> Iterator[str]:
    """Yield changes as lines, those of one body below its name."""
    shown = changes if everything else changes[:_SHOWN]
    where = ""
    for change in shown:
        if change.where != where:
            where = change.where
            yield f"  in {where or 'the main graph'}:"
        indent = "    " if where else "  "
        for line in change.lines(everything):
            yield f"{indent}{line if everything else _clipped(line)}"
    if len(shown) < len(changes):
        yield f"  … {len(changes) - len(shown)} more, which --all shows"


def _clipped(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
