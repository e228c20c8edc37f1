"""The error index: it has every class, and each message that it lists is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.errors import CALLS

from whileback import errors

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| `(.*?)` \|", re.MULTILINE)
ROWS = [(name, row) for name, text in SECTION.findall(PAGE) for row in ROW.findall(text)]
CLASSES = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, (errors.WhilebackError, Warning))
}


def test_every_class_has_messages() -> None:
    assert {name for name, _ in ROWS} == CLASSES - {"WhilebackError"}
    assert "WhilebackError" in PAGE


def test_every_row_has_a_call() -> None:
    assert len(ROWS) == len(CALLS)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda number: ROWS[number][1][:40])
def test_message(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, row = ROWS[number]
    monkeypatch.chdir(tmp_path)
    with pytest.raises((errors.WhilebackError, errors.WhilebackWarning)) as caught:
        CALLS[number]()
    assert type(caught.value) is getattr(errors, name)
    pattern = ".*".join(map(re.escape, row.split("…")))
    assert re.fullmatch(pattern, str(caught.value), re.DOTALL)
