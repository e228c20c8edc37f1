"""What a loop keeps of each trip for its gradient, and why: noted at the loop, in its metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import onnx_ir as ir

from whileback.graph.origin import MEMORY

__all__ = ["Row", "Tape", "note_tape", "size_text", "tape_of"]


@dataclass(frozen=True)
class Row:
    """A value of a loop's body that is kept of each trip, or carried back.

    Attributes:
        name, type: the value.
        why: the reason.
        size: how many bytes it takes; None if its shape does not tell.
        kept: whether it is; otherwise it is carried back, and copied in every trip.
    """

    name: str
    type: str
    why: str
    size: int | None = None
    kept: bool = True

    def to_text(self) -> str:
        """Return the row as a line."""
        size = "" if self.size is None else f", {size_text(self.size)}"
        return f"{self.name} {self.type}{size}: {self.why}"


@dataclass(frozen=True)
class Tape:
    """What a loop keeps of each trip for its gradient.

    Attributes:
        strategy: what is done with the loop, and why.
        rows: the values.
        size: how many more bytes a trip takes for the gradient; None if shapes do not tell.
    """

    strategy: str
    rows: tuple[Row, ...] = ()
    size: int | None = 0

    def lines(self) -> Iterator[str]:
        """Yield the tape as text, a value a line."""
        if any(row.kept for row in self.rows):
            total = "" if self.size is None else f" {size_text(self.size)}"
            yield f"{self.strategy}; a trip keeps{total}:"
        else:
            yield f"{self.strategy}; a trip keeps nothing"
        yield from (f"  {row.to_text()}" for row in self.rows)


def note_tape(node: ir.Node, tape: Tape) -> None:
    """Note at a loop what it keeps."""
    node.metadata_props[MEMORY] = json.dumps(asdict(tape), ensure_ascii=False)


def tape_of(node: ir.Node) -> Tape | None:
    """Return what is noted at a loop; None if there is nothing, or nothing of this form."""
    text = node.metadata_props.get(MEMORY)
    if not text:
        return None
    try:
        found = json.loads(text)
        rows = tuple(
            Row(str(r["name"]), str(r["type"]), str(r["why"]), _size(r["size"]), bool(r["kept"]))
            for r in found["rows"]
        )
        return Tape(str(found["strategy"]), rows, _size(found["size"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        # Metadata may be of another program, and say anything.
        return None


def _size(given: object) -> int | None:
    if given is None or (type(given) is int and 0 <= given < 2**63):
        return given
    raise ValueError("no number of bytes")


def size_text(count: float) -> str:
    """Return a number of bytes as text, such as `4.0 KB`."""
    units = ["B", "KB", "MB", "GB", "TB"]
    while count >= 1024 and len(units) > 1:
        count, units = count / 1024, units[1:]
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.1f} {units[0]}"
