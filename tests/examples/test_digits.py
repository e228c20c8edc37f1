"""The example that trains on digits: it reads those held out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from whileback.training import OPTIMIZERS

PATH = Path(__file__).parents[2] / "examples" / "training" / "digits.py"


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_digits_are_read(digits: ModuleType, optimizer: str) -> None:
    network = digits.model()
    assert digits.read_right(network, {}) < 0.3
    assert digits.read_right(network, digits.train(network, optimizer, epochs=15)) >= 0.97


def test_every_optimizer_has_a_rate(digits: ModuleType) -> None:
    assert set(digits.RATES) == set(OPTIMIZERS)
