"""Where rules stand."""

from __future__ import annotations

import inspect
from pathlib import Path

import onnx.defs
import pytest

from whileback.gradient.registry import Entry, entries

RULES = [entry for entry in entries() if entry.rule is not None and not entry.domain]


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.op_type)
def test_a_rule_stands_in_the_folder_that_onnx_itself_uses(entry: Entry) -> None:
    assert entry.rule is not None
    folder = Path(onnx.defs.get_schema(entry.op_type).file).parent.name
    module = inspect.getmodule(entry.rule)
    assert module is not None
    assert folder in module.__name__.removeprefix("whileback.gradient.rules.").split(".")
