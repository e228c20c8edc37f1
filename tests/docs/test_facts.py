"""What pages say and show of figures, versions and pictures is what these are."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_figures_of_the_comparison_are_measured() -> None:
    """Each number with a point, and each of three digits and more, is in the benchmarks' tables."""
    number = re.compile(r"(?<![\w.])(?:\d+\.\d+(?:\.\d+)?|\d{3,})(?![\w.]*\d)")
    page = read("docs/comparison.md").replace("10 000", "").replace("1 000 000", "")
    found = set(number.findall(page))
    assert len(found) > 40
    assert found <= set(number.findall(read("benchmarks/README.md")))


def test_requirements_are_those_of_the_package() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"]]
    needed += [
        each for name in ("onnxruntime", "xla", "torch", "training") for each in extras[name]
    ]
    page = read("docs/stability.md")
    assert [each for each in needed if f"`{each}`" not in page] == []
    versions = [each.rpartition(" ")[2] for each in project["classifiers"] if " :: 3." in each]
    assert f"{versions[0]} to {versions[-1]}" in page


def test_pictures_are_those_that_are_drawn() -> None:
    drawn = runpy.run_path(str(ROOT / "tools" / "draw_loops.py"))["PICTURES"]
    for name, draw in drawn.items():
        assert draw().to_svg() == read(f"docs/pictures/{name}.svg")
