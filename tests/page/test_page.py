"""The page in a browser: folded, linked, searched, dark and light, and safe with any names."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

import whileback

DECAY = Path(__file__).parents[2] / "examples/decay.onnx.txt"


@pytest.fixture(scope="module")
def decay() -> str:
    return whileback.to_html(whileback.gradient(whileback.load(DECAY), "loss", ["w", "x"]))


def show(page: Page, folder: Path, text: str) -> None:
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")


def node(page: Page, made: str) -> Locator:
    return page.locator(".box.node", has=page.get_by_text(made, exact=True)).last


def test_it_draws_forward_beside_backward(page: Page, tmp_path: Path, decay: str) -> None:
    show(page, tmp_path, decay)
    assert page.title() == "decay · whileback"
    model, gradient = (
        page.locator(f"#world > .content > .lane.{lane}") for lane in ("forward", "gradient")
    )
    left, right = model.bounding_box(), gradient.bounding_box()
    assert left and right
    assert left["x"] + left["width"] < right["x"]
