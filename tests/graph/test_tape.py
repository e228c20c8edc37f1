"""What is noted at a loop of its tape comes back, and notes of others are no notes."""

from __future__ import annotations

import json

import onnx_ir as ir
import pytest

from whileback.graph.origin import MEMORY
from whileback.graph.tape import Row, Tape, note_tape, size_text, tape_of

TAPE = Tape(
    "keep: it is small",
    (
        Row("h", "FLOAT[2]", "carried into the trip", 8),
        Row("B", "FLOAT[?]", "not kept, but copied", None, kept=False),
    ),
    8,
)


def noted(text: str) -> ir.Node:
    node = ir.node("Loop", [])
    node.metadata_props[MEMORY] = text
    return node


def test_a_note_comes_back() -> None:
    node = ir.node("Loop", [])
    assert tape_of(node) is None
    note_tape(node, TAPE)
    assert tape_of(node) == TAPE


def test_as_text() -> None:
    assert list(TAPE.lines()) == [
        "keep: it is small; a trip keeps 8 B:",
        "  h FLOAT[2], 8 B: carried into the trip",
        "  B FLOAT[?]: not kept, but copied",
    ]
    assert list(Tape("implicit").lines()) == ["implicit; a trip keeps nothing"]
    copied = Tape("keep", (Row("B", "FLOAT[?]", "copied", kept=False),))
    assert list(copied.lines()) == ["keep; a trip keeps nothing", "  B FLOAT[?]: copied"]


ROW = {"name": "h", "type": "FLOAT[]", "why": "w", "size": 4, "kept": True}


@pytest.mark.parametrize(
    "text",
    [
        "a trip keeps nothing",
        "",
        "[]",
        "null",
        "{}",
        "[" * 100_000,
        "1" * 5000,
        json.dumps({"strategy": "keep", "rows": [{}], "size": 0}),
        json.dumps({"strategy": "keep", "rows": 3, "size": 0}),
        json.dumps({"strategy": "keep", "rows": [], "size": "x"}),
        json.dumps({"strategy": "keep", "rows": [], "size": -1}),
        json.dumps({"strategy": "keep", "rows": [{**ROW, "size": 1e400}], "size": 0}),
    ],
)
def test_what_others_noted_is_no_tape(text: str) -> None:
    assert tape_of(noted(text)) is None


def test_sizes_are_told_in_their_units() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 2**30, 3 * 2**40)] == [
        "0 B",
        "1023 B",
        "1.0 KB",
        "1.0 GB",
        "3.0 TB",
    ]
