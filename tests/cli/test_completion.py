"""What is printed for shells completes commands, options and files."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command

BASH = """
source "$1"
COMP_WORDS=(whileback "${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
complete -p whileback | grep -oE '_[a-z_]+' | head -1 > name
$(cat name) whileback "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gra"], ["gradient"]),
        (["check", "--ju"], ["--junit"]),
        (["profile", "--optimization", "dis"], ["disabled"]),
        (["show", "pow"], ["power.onnx.txt"]),
    ],
)
def test_bash_completes(command: Command, words: list[str], expected: list[str]) -> None:
    result = command("completion", "bash")
    assert (result.status, result.err) == (0, "")
    Path("completion").write_text(result.out)
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", "completion", *words], capture_output=True, text=True
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(command: Command, shell: str) -> None:
    result = command("completion", shell)
    assert (result.status, result.err) == (0, "")
    assert "junit" in result.out and "whileback" in result.out


def test_the_package_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert command("completion", "bash") == (
        1,
        "",
        "error: completion needs the package shtab, which is not installed. Install it with: "
        "pip install 'whileback[completion]'\n",
    )


def test_the_version(command: Command) -> None:
    import whileback

    assert command("--version") == (0, f"whileback {whileback.__version__}\n", "")
