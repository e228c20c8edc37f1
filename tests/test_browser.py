"""The browser of the tests: what must fail a test does."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

pytest_plugins = ["pytester"]


def test_page(page: Page) -> None:
    page.set_content("<button onclick=\"this.textContent = 'pressed'\">press</button>")
    page.get_by_role("button").click()
    assert page.get_by_text("pressed").is_visible()


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("throw Error('thrown')", "thrown"),
        ("console.error('logged')", "logged"),
        ("new Image().src = 'http://192.0.2.1/x.png'", "the page asks for http://192.0.2.1/x.png"),
    ],
)
def test_faults(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, script: str, fault: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest("from tests.browser import browser, page")
    pytester.makepyfile(f"def test(page): page.set_content({f'<script>{script}</script>'!r})")
    result = pytester.runpytest_subprocess("--import-mode=importlib")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*{fault}*"])
