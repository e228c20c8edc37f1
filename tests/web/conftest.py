"""The page of `make web-demo`, made and served as that does it, below another folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the page; without ONNX Runtime Web, tests are skipped, but where all must run."""
    if not (WEB / "node_modules" / "onnxruntime-web").is_dir():
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("no ONNX Runtime Web: make javascript gets it, with npm")
    folder = tmp_path_factory.mktemp("served") / "some" / "where"
    command = [sys.executable, WEB / "build.py", folder, "../"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="session")
def address(folder: Path) -> Iterator[str]:
    """Serve the page as a part of a larger site, and yield its address."""
    with serving(folder.parents[1]) as address:
        yield f"{address}some/where/"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""
    command = [sys.executable, WEB / "serve.py", folder, "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
        server.kill()
