"""A headless Chromium for tests of pages; a page that reports an error fails its test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1440, "height": 900}
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield the browser; without one, tests are skipped, but where all must run."""
    path = os.environ.get("WHILEBACK_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if path is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("no Chromium: install one, or set WHILEBACK_CHROMIUM to its path")
    with sync_playwright() as playwright:
        # Chromium has no sandbox for root, as whom containers run.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield an empty page of desktop size; errors and calls to other machines fail the test."""
    faults: list[str] = []
    opened = browser.new_page(viewport=DESKTOP)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    opened.on("request", lambda request: faults.extend(_foreign(request)))
    yield opened
    opened.close()
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


def _foreign(request: Request) -> list[str]:
    own = ("file:", "blob:", "data:", "http://127.0.0.1:", "http://localhost:")
    return [] if request.url.startswith(own) else [f"the page asks for {request.url}"]
