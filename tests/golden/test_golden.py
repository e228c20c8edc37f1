"""The text of gradient graphs. After a wanted change: `python -m tests.golden.test_golden`."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.golden.models import MODELS
from tests.judge import parse

from whileback import show
from whileback.errors import WhilebackWarning
from whileback.gradient import vjp

FOLDER = Path(__file__).parent


def gradient_text(name: str) -> str:
    text, of, wrt = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhilebackWarning)
        return show(vjp(parse(text), of, wrt), everything=True).rstrip() + "\n"


@pytest.mark.parametrize("name", MODELS)
def test_gradient_graph_is_the_one_on_record(name: str) -> None:
    assert gradient_text(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_record_belongs_to_a_model() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(MODELS)


if __name__ == "__main__":
    for each in MODELS:
        (FOLDER / f"{each}.txt").write_text(gradient_text(each), encoding="utf-8")
