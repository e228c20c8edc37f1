"""What all tests share: the engine they run on, and numbers that a runtime draws stay the same."""

from __future__ import annotations

import onnxruntime
import pytest
from tests.browser import browser, page
from tests.switch import run_on

__all__ = ["browser", "page"]

# Nodes without a seed of their own draw from this one, each from its own sequence.
onnxruntime.set_seed(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        default="onnxruntime",
        help="the engine on which tests compile what they compile for ONNX Runtime",
    )


@pytest.fixture(autouse=True)
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = request.config.getoption("--engine")
    if engine != "onnxruntime":
        run_on(engine, request.module, monkeypatch)
