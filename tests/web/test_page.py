"""The page that differentiates and trains in a browser: what it shows is what Python gets."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from safetensors.numpy import load_file
from tests.browser import PHONE
from tests.web.conftest import WEB

# Asks the models of the page, with nothing shown of them.
ASK = """async ([throws, [steps, trips, rate]]) => {
    const { runtime } = await import("./runtime.js");
    const { Throw } = await import("./throw.js");
    const { Spirals } = await import("./spirals.js");
    const ort = await runtime();
    const [ball, network] = [await Throw.open(ort), await Spirals.open(ort)];
    const looks = [];
    for (const each of throws) {
        ball.velocity = each.velocity;
        looks.push({ ...await ball.look(each), differences: await ball.differences(each) });
    }
    for (let step = 0; step < steps; step++) await network.step(trips, rate);
    return { looks, losses: network.losses, plane: await network.plane(8, trips) };
}"""
HIT = r"^0\.0(0\d|10) m$"
SETTINGS = [
    {"velocity": [6, 7], "wind": -2, "bounces": 1, "target": 22},
    {"velocity": [6, 7], "wind": 8, "bounces": 0, "target": 4},
    {"velocity": [3, 9], "wind": -10, "bounces": 4, "target": 15},
    {"velocity": [-2, -1], "wind": 0, "bounces": 2, "target": 10},
]


@pytest.fixture
def still(page: Page, address: str) -> Page:
    """Return the page as those see it who want nothing to move by itself."""
    page.emulate_media(reduced_motion="reduce")
    page.goto(address)
    ready(page)
    return page


def ready(page: Page) -> None:
    for part in ("throw", "spirals"):
        expect(page.locator(f"#{part}")).not_to_have_attribute("aria-busy", "true", timeout=20_000)


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name)


def number(part: Locator, name: str) -> float:
    text = part.locator(f"[data-shows={name}]").inner_text().replace("−", "-")
    return float(re.sub(r"[^-0-9.e]", "", text))


def shows(part: Locator, name: str, pattern: str, timeout: int = 20_000) -> None:
    expect(part.locator(f"[data-shows={name}]")).to_have_text(re.compile(pattern), timeout=timeout)


class InPython:
    """A file of the page, on ONNX Runtime in Python."""

    def __init__(self, path: Path) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def __call__(self, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
        names = [value.name for value in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, feeds), strict=True))


def thrown(folder: Path, **settings: Any) -> dict[str, np.ndarray]:
    feeds = {name: np.array(value, np.float32) for name, value in settings.items()}
    feeds["bounces"] = np.array(settings["bounces"])
    return InPython(folder / "models" / "throw.grad.onnx")(feeds)


def losses(folder: Path, steps: int, trips: int, rate: float) -> tuple[list[float], np.ndarray]:
    """Return the loss before each step, and scores of a grid of 8 × 8 after the last."""
    models = folder / "models"
    said = json.loads((models / "spirals" / "interface.json").read_text())
    kept = load_file(models / "spirals" / said["checkpoint"]["file"])
    points = load_file(models / "points.safetensors")
    step = InPython(models / "spirals" / said["step"]["file"])
    feeds = {"point": points["point"], "label": points["label"], "trips": np.array(trips)}
    found = []
    for _ in range(steps):
        out = step({**kept, **feeds, "learning_rate": np.array(rate, np.float32)})
        found.append(float(out[said["loss"]]))
        kept = {i["name"]: out[i["next"]] for i in said["step"]["inputs"] if "next" in i}
    places = (2 * np.arange(8, dtype=np.float32) + 1) / 8 - 1
    feeds["point"] = np.stack(np.meshgrid(places, -places), axis=-1).reshape(-1, 2)
    feeds["label"] = np.zeros(64, np.int64)
    read = [value["name"] for value in said["evaluation"]["inputs"]]
    evaluation = InPython(models / "spirals" / said["evaluation"]["file"])
    score = evaluation({name: value for name, value in {**kept, **feeds}.items() if name in read})
    return found, score["score"][:, 1] - score["score"][:, 0]


def test_numbers_are_those_of_python(page: Page, address: str, folder: Path) -> None:
    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    page.goto(f"{address}style.css")
    got = page.evaluate(ASK, [SETTINGS, [40, 5, 0.01]])
    for settings, look in zip(SETTINGS, got["looks"], strict=True):
        want = thrown(folder, **settings)
        assert look["trips"] == len(want["path"])
        np.testing.assert_allclose(look["path"], want["path"], 1e-5, 1e-5)
        np.testing.assert_allclose(look["landing"], want["landing"], 1e-5)
        np.testing.assert_allclose(look["gradient"], want["velocity_grad"], 1e-4)
        np.testing.assert_allclose(look["gradient"], look["differences"], 1e-4)
    want_losses, plane = losses(folder, 40, 5, 0.01)
    np.testing.assert_allclose(got["losses"], want_losses, 1e-4)
    np.testing.assert_allclose(got["plane"], plane, 1e-2, 1e-3)


def test_descent_hits_the_flag_wherever_it_is(still: Page, folder: Path) -> None:
    throw = part(still, "A loop, differentiated")
    first = thrown(folder, **SETTINGS[0])
    assert number(throw, "trips") == len(first["path"])
    assert number(throw, "gradient0") == pytest.approx(first["velocity_grad"][0], abs=1e-3)
    assert number(throw, "difference0") == pytest.approx(first["velocity_grad"][0], abs=1e-3)
    throw.get_by_role("button", name="One step").click()
    shows(throw, "steps", "^1$")
    throw.get_by_label("Learning rate").fill("0.03")
    shows(throw, "miss", HIT)
    expect(throw.get_by_role("button", name="Start")).to_be_visible()
    trips = number(throw, "trips")
    assert trips > len(first["path"])
    # By the keyboard, and by tapping.
    throw.get_by_label("Bounces before").press("ArrowRight")
    shows(throw, "trips", f"^(?!{trips:.0f}$)")
    assert number(throw, "trips") > trips
    throw.get_by_role("img").click(position={"x": 200, "y": 100})
    width = throw.get_by_role("img").bounding_box()["width"]
    flag = float(throw.get_by_role("slider", name="Flag").input_value())
    assert flag == pytest.approx(200 / width * 36 - 3.5, abs=0.3)
    shows(throw, "miss", HIT)


def test_training_learns_the_spirals(still: Page, folder: Path) -> None:
    spirals = part(still, "A step of training")
    for _ in range(3):
        spirals.get_by_role("button", name="One step").click()
    shows(spirals, "steps", "^3$")
    want, _ = losses(folder, 3, 6, 0.01)
    assert number(spirals, "loss") == pytest.approx(want[2], rel=1e-3)
    assert number(spirals, "accuracy") < 80
    spirals.get_by_label("Learning rate").fill("-1.5")
    spirals.get_by_role("button", name="Start").click()
    shows(spirals, "loss", r"^0\.00")
    spirals.get_by_role("button", name="Pause").click()
    assert number(spirals, "accuracy") > 95
    spirals.get_by_role("button", name="Reset").click()
    shows(spirals, "steps", "^0$")
    spirals.get_by_role("button", name="One step").click()
    shows(spirals, "steps", "^1$")
    assert number(spirals, "loss") == pytest.approx(want[0], rel=1e-3)


def test_both_begin_by_themselves_on_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(address)
    ready(page)
    shows(part(page, "A loop, differentiated"), "steps", "^[1-9]")
    shows(part(page, "A step of training"), "steps", "^[1-9]")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("onnxruntime/ort.wasm.bundle.min.mjs", "cannot be loaded. `make web-demo` puts it there"),
        (
            "onnxruntime/ort-wasm-simd-threaded.wasm",
            "is missing (404 Not Found). `make web-demo` makes it",
        ),
        ("models/spirals/interface.json", "is missing (404 Not Found). `make web-demo` makes it"),
    ],
)
def test_what_is_missing_is_said(browser: Browser, address: str, missing: str, said: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.route(f"**/{missing}", lambda route: route.fulfill(status=404))
    page.goto(address)
    expect(page.get_by_role("alert")).to_have_text(f"{missing} {said}; then reload this page.")
    page.close()


def test_a_page_that_no_server_serves(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "index.html").as_uri())
    expect(page.get_by_role("alert")).to_have_text(
        "Browsers load this page from a server alone: `make web-demo` is one."
    )
    page.close()


def test_ports_that_cannot_be_had_and_packages_that_are_missing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert error_of("serve.py", tmp_path, port) == (
            f"port {port} cannot be had: Address already in use; "
            f"take another, say PORT={port + 1}\n"
        )
    assert error_of("serve.py", tmp_path, "a") == "'a' is no port: take a number, say PORT=8000\n"
    assert error_of("serve.py", tmp_path, 70000) == (
        "there is no port 70000: take one up to 65535\n"
    )
    for name in ("build.py", "models.py"):
        shutil.copyfile(WEB / name, tmp_path / name)
    runtime = tmp_path / "node_modules" / "onnxruntime-web" / "dist"
    assert error_of(tmp_path / "build.py", tmp_path / "built", "../") == (
        f"'{runtime}' is missing: run npm ci --ignore-scripts in '{tmp_path}'\n"
    )


def error_of(script: str | Path, *words: object) -> str:
    command = [sys.executable, WEB / script, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1
    return ran.stderr
