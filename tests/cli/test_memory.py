"""`--memory` on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from whileback import budget
from whileback.cli.memory import read_memory
from whileback.errors import ArgumentError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (["checkpoint"], "checkpoint"),
        (["budget:100"], budget(100)),
        (["rnn=keep", "a=b=budget:9:27"], {"rnn": "keep", "a=b": budget(9, 27)}),
    ],
)
def test_strategies(words: list[str], expected: Any) -> None:
    assert read_memory(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["keep", "y=checkpoint"],
            "--memory is said of all loops (keep) and once more: say it once for all, or "
            "LOOP=STRATEGY for each.",
        ),
        (
            ["budget:many"],
            "--memory budget:many is no budget; give budget:FRAMES or budget:FRAMES:TRIPS, such "
            "as budget:100:1000000.",
        ),
    ],
)
def test_what_is_refused(words: list[str], expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        read_memory(words)
    assert str(error.value) == expected
