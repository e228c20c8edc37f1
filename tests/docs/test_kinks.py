"""The page on kinks: each row is run, and its numbers are those that come out."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.judge import parse

import whileback
from whileback.gradient.registry import entries

PAGE = (Path(__file__).parents[2] / "docs" / "kinks.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| `y = ")
]
SAYS = re.compile(r"[Aa]t 0\b|equal ones|equal maxima|where all is 0|at a jump")


def numbers(text: str) -> Any:
    """Return the array that a text such as `[0, ∞]` shows."""
    text = text.replace("∞", "1e999").replace("NaN", "None")
    return np.array(ast.literal_eval(text), np.float32)


def named(text: str) -> dict[str, Any]:
    """Return the arrays of a text such as `x = [0, 1], s = 2`."""
    return {name: numbers(value) for name, value in re.findall(r"(\w+) = (.+?)(?=, \w+ =|$)", text)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} at {row[1]}")
def test_row(row: list[str]) -> None:
    node, at, gradients, *_ = row
    values = named(at)
    inputs = ", ".join(f"float[{str(v.shape).strip('(,)')}] {k}" for k, v in values.items())
    model = parse(f"({inputs}) => (float y) {{ {node} }}")
    model.graph.outputs[0].shape = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", whileback.WhilebackWarning)  # of steps, it is zero
        f = whileback.compile(whileback.vjp(model, of="y", wrt=list(values)))
    y = whileback.compile(model)(values)["y"]
    found = f(values, y_grad=np.ones_like(y))
    expected = named(gradients)
    assert list(expected) == [f"{name}_grad" for name in values]
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-4)


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the page tells of JAX 0.10")
@pytest.mark.parametrize("row", [row for row in ROWS if row[4]], ids=lambda row: row[4])
def test_jax(row: list[str]) -> None:
    expression, _, told = row[4].partition("`: ")
    x = jnp.array(named(row[1])["x"])
    scope = {"jax": jax, "jnp": jnp}
    found = jax.grad(lambda x: eval(expression, scope, {"x": x}).sum())(x)
    np.testing.assert_allclose(found, numbers(told), rtol=1e-4)


def test_what_rules_say_of_kinks_is_in_the_table() -> None:
    said = {
        entry.op_type for entry in entries() if entry.rule and SAYS.search(entry.rule.__doc__ or "")
    }
    assert {"Relu", "Abs", "Max", "MaxPool"} <= said
    assert said <= set(re.findall(r"`(?:y = )?(\w+)", PAGE))
