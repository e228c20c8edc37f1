"""The documentation site: it is built without a warning, and asks nothing of other machines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.browser import PHONE

import whileback
from whileback.cli import main

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    """Serve files, and log nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site; a warning, such as that of a link to nowhere, fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": "src"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Yield the address at which the site is served."""
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_page_is_in_it(site: Path) -> None:
    pages = (ROOT / "docs").rglob("*.md")
    places = [page.relative_to(ROOT / "docs").with_suffix("") for page in pages]
    assert places
    for place in places:
        folder = place.parent if place.name == "index" else place
        assert (site / folder / "index.html").is_file()


def test_no_page_takes_anything_from_other_machines(site: Path) -> None:
    taken = re.compile(r"""(?:<(?:link|script|img|iframe|source)[^>]*|url\()["' =](?:https?:)?//""")
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css")]
    assert len(files) > 20
    assert [file for file in files if taken.search(file.read_text(encoding="utf-8"))] == []


def test_every_command_is_in_the_reference(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    shown = (site / "commands" / "index.html").read_text(encoding="utf-8")
    assert {"gradient", "train"} <= set(commands)
    assert [name for name in commands if f"usage: whileback {name}" not in shown] == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "api" / "index.html").read_text(encoding="utf-8")
    calls = [name for name in whileback.__all__ if name[0].islower() and name != "training"]
    assert {"gradient", "check"} <= set(calls)
    assert [name for name in calls if not re.search(rf'id="whileback\.(\w+\.)*{name}"', page)] == []


@pytest.mark.parametrize("name", ["", "training/", "project/readme/"])
def test_pages_fit_a_telephone(page: Page, address: str, name: str) -> None:
    """`page` fails if anything is asked of another machine, or a script fails."""
    page.set_viewport_size(PHONE)
    page.goto(f"{address}/{name}", wait_until="networkidle")
    assert page.locator("h1").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_search(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("textbox", name="Search").fill("checkpoint")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url(re.compile(r"/\?h="))
    assert "checkpoint" in page.locator("article").inner_text().lower()


def test_links_out_of_docs_lead_to_pages(page: Page, address: str) -> None:
    page.goto(f"{address}/training/")
    page.get_by_role("link", name="examples/training/train.mjs").click()
    page.wait_for_url(f"{address}/project/node/")
    assert "Node.js" in page.locator("h1").inner_text()
