"""Where rules stand."""

from __future__ import annotations

import inspect
from pathlib import Path

import onnx.defs
import pytest

from whileback.gradient.catalogue import catalogue
from whileback.gradient.registry import Entry, entries

RULES = [entry for entry in entries() if entry.rule is not None and not entry.domain]


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.op_type)
def test_a_rule_stands_in_the_folder_that_onnx_itself_uses(entry: Entry) -> None:
    assert entry.rule is not None
    folder = Path(onnx.defs.get_schema(entry.op_type).file).parent.name
    module = inspect.getmodule(entry.rule)
    assert module is not None
    assert folder in module.__name__.removeprefix("whileback.gradient.rules.").split(".")


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml"])
def test_every_operator_has_a_rule_an_expansion_or_a_reason(domain: str) -> None:
    known = {coverage.operator: coverage for coverage in catalogue()}
    names = [
        f"{domain}::{schema.name}" if domain else schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == domain and not schema.deprecated
    ]
    assert len(names) > 15
    assert [name for name in names if known[name].status == "none yet"] == []
    assert [name for name in names if not known[name].text] == []
