"""The example that teaches a model of other people a new type of files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
import pytest

from whileback.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_filetypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location("filetypes", EXAMPLES / "filetypes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "run_whileback", lambda *words: main(words))
    before, after = module.main(tmp_path, each=4, epochs=2)
    assert after["loss"] < 0.8 * before["loss"]
    home = module.fetch("magika", "1.0.3") / "magika" / "models" / "standard_v3_3"
    old, new = (onnx.load(file) for file in (home / "model.onnx", tmp_path / "tuned.onnx"))
    assert (old.graph.input, old.graph.output) == (new.graph.input, new.graph.output)
    nodes = [
        [(n.name, n.op_type, n.input, n.output) for n in each.graph.node] for each in (old, new)
    ]
    assert nodes[0] == nodes[1]
