"""Every block of code of the README and of docs/ runs, and prints what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.docs.blocks import SHOWN, blocks, run_command, run_page
from tests.docs.given import given, judge

from whileback.gradient import registry

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("docs/**/*.md")))]
# Pages whose blocks other tests run, since they need a browser.
ELSEWHERE = {"docs/guides/web-page.md"}
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}


@pytest.mark.parametrize("page", PAGES)
def test_kinds(page: str) -> None:
    """Each block says what it is."""
    known = {"console", "sh", "python", *SHOWN}
    assert [block for block in blocks(TEXTS[page]) if block.kind not in known] == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in ELSEWHERE and any(b.runs for b in blocks(TEXTS[page]))],
)
def test_page(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    without = shutil.ignore_patterns("node_modules")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=without)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    # Rules that a page makes for operators of its own are forgotten after it.
    known = {key: entry for key, entry in registry._ENTRIES.items() if not key[0].startswith("my.")}
    monkeypatch.setattr(registry, "_ENTRIES", known)
    scope = given(page)

    def run(command: str) -> tuple[int, str]:
        capsys.readouterr()
        status, printed = run_command(command, lambda: "".join(capsys.readouterr()))
        return status, printed.replace(str(tmp_path), "/home/you")

    run_page(page, TEXTS[page], scope, run)
    judge(page, scope)


def test_the_example_is_the_file() -> None:
    model = (ROOT / "examples" / "decay.onnx.txt").read_text(encoding="utf-8")
    assert model.partition("\n")[2] in TEXTS["README.md"]


@pytest.mark.parametrize(
    "wrong",
    [
        "```python\nassert 1 > 2\n```",
        "```sh\nwhileback show missing.onnx\n```",
        "```sh\npip install 'whileback[nothing]'\n```",
        "```sh\nmake nothing\n```",
        "```console\n$ whileback --version\nwhileback 0.0\n```",
        "```console\n$ whileback show missing.onnx\n```",
        "```console\n$ whileback rules Exp\nExp: none\n```",
        "```console\n$ whileback run examples/decay.onnx.txt x=1 w=0.5\nloss : FLOAT[] = 0.1\n```",
        "```console\n$ echo 1 | cat\n2\n```",
    ],
)
def test_what_is_wrong_fails(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(command: str) -> tuple[int, str]:
        return run_command(command, lambda: "".join(capsys.readouterr()))

    with pytest.raises(AssertionError):
        run_page("page", f"{wrong}\n", {}, run)


def test_what_is_text_is_not_run() -> None:
    page = "```text\na\n```\n\n   ```python\n   # Not run here: no.\n   b\n   ```\n"
    assert [block.code for block in blocks(page)] == ["a\n", "# Not run here: no.\nb\n"]
    run_page("page", page, {}, lambda command: (1, command))
