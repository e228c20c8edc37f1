"""The guide to training in a web page: its blocks make a page that trains, and a trained model."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from safetensors.numpy import load_file
from tests.web.conftest import WEB, serving

import whileback
from whileback import training
from whileback.cli import main

ROOT = WEB.parent
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, list[str]]:
    """Return the guide's blocks by language, in a folder with what it says is needed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node_modules").symlink_to(WEB / "node_modules")
    for name in ("training.mjs", "safetensors.mjs"):
        shutil.copyfile(ROOT / "examples" / "training" / name, name)
    shutil.copyfile(ROOT / "examples" / "decay.onnx.txt", "decay.onnx.txt")
    found: dict[str, list[str]] = {}
    for language, text in BLOCK.findall((ROOT / "docs/guides/web-page.md").read_text("utf-8")):
        found.setdefault(language, []).append(text)
    return found


def run(commands: str) -> None:
    for command in map(shlex.split, commands.strip().splitlines()):
        if command[0] == "whileback":
            assert main(command[1:]) == 0
        elif command[0] == "cp":
            subprocess.run(command, check=True)
        else:
            assert command[:2] in (["pip", "install"], ["npm", "install"])


def test_the_page_trains_and_its_result_is_exported(
    page: Page, blocks: dict[str, list[str]]
) -> None:
    install, artifacts, export, gradient = blocks["sh"]
    run(install)
    for block in blocks["python"]:
        exec(block, {})
    run(artifacts)
    run(gradient)
    for name, text in zip(("index.html", "gradient.html"), blocks["html"], strict=True):
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
