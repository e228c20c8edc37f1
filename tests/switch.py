"""Tests that were written for ONNX Runtime, on another engine."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from tests import judge
from tests.whole_programs import right_answers

from whileback.engines import Compiled, compile

__all__ = ["run_on"]


def run_on(engine: str, module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Let a test's module compile for an engine what says nothing else, and the judge as well.

    Other engines know nothing of ONNX Runtime's options, so there is one level of optimization.
    """

    def compiled(
        model: Any, own: str = "onnxruntime", *, base_dir: Any = None, **options: Any
    ) -> Compiled:
        if own != "onnxruntime":
            return compile(model, own, base_dir=base_dir, **options)
        return compile(model, engine, base_dir=base_dir)

    for each in (module, judge, right_answers):
        if getattr(each, "compile", None) is compile:
            patch.setattr(each, "compile", compiled)
    patch.setattr(judge, "LEVELS", judge.LEVELS[:1])
