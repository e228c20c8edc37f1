"""The guide to training in a web page: its blocks make a page that trains, and a trained model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from safetensors.numpy import load_file
from tests.docs.blocks import blocks, run_command
from tests.web.conftest import WEB, serving

import whileback
from whileback import training

ROOT = WEB.parent


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, list[str]]:
    """Return the guide's blocks by language, in a folder with what it says is needed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node_modules").symlink_to(WEB / "node_modules")
    for name in ("training.mjs", "safetensors.mjs"):
        shutil.copyfile(ROOT / "examples" / "training" / name, name)
    shutil.copyfile(ROOT / "examples" / "decay.onnx.txt", "decay.onnx.txt")
    found: dict[str, list[str]] = {}
    for block in blocks((ROOT / "docs" / "guides" / "web-page.md").read_text(encoding="utf-8")):
        found.setdefault(block.kind, []).append(block.code)
    return found


def run(commands: str) -> None:
    """Run commands, but for npm, whose packages are there already."""
    for command in commands.strip().splitlines():
        if not command.startswith("npm install "):
            assert run_command(command, str)[0] == 0


def test_the_page_trains_and_its_result_is_exported(
    page: Page, guide: dict[str, list[str]]
) -> None:
    install, artifacts, export, gradient = guide["sh"]
    run(install)
    for block in guide["python"]:
        exec(block, {})
    run(artifacts)
    run(gradient)
    for name, text in zip(("index.html", "gradient.html"), guide["html"], strict=True):
        Path(name).write_text(text)
    with serving(Path()) as address:
        page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        page.goto(f"{address}gradient.html")
        expect(page.locator("#shown")).to_have_text(
            re.compile(r"^loss 0\.0096977.*, w_grad 0\.474111")
        )
        page.goto(address)
        expect(page.get_by_role("button")).to_be_enabled(timeout=20_000)
        said = page.locator("#shown").inner_text()
        with page.expect_download() as download:
            page.get_by_role("button").click()
        download.value.save_as("trained.safetensors")
    run(export)
    losses, score = in_python()
    number, loss, first = map(float, re.findall(r"-?\d+\.?\d*", said))
    assert number == len(losses)
    assert loss == pytest.approx(losses[-1], rel=1e-3, abs=1e-5)
    assert loss < 0.1 < losses[0]
    assert first == pytest.approx(score, rel=1e-3)


def in_python() -> tuple[list[float], float]:
    """Return the losses of the same steps, and the first score of the model that was exported."""
    data = load_file("data.safetensors")
    trainer = training.Trainer(
        training.step(whileback.load("reader.onnx"), "cross-entropy", "adamw")
    )
    losses = [float(trainer.step(data, 0.01)["loss"]) for _ in range(100)]
    scores = whileback.compile("trained.onnx")(x=data["x"])["score"]
    assert np.mean(scores.argmax(1) == data["label"]) > 0.95
    return losses, float(scores[0, 0])
