"""The optimizers of `ai.onnx.preview.training`, which ONNX Runtime does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient

import whileback
from whileback.engines import compile

HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]> model '
STATES = {"Adagrad": ["H"], "Adam": ["V", "H"], "Momentum": ["V"]}
CALLS = [
    "Adagrad",
    "Adagrad <decay_factor=0.1, epsilon=0.01, norm_coefficient=0.2>",
    "Adam",
    "Adam <alpha=0.7, beta=0.6, epsilon=0.01, norm_coefficient=0.2, norm_coefficient_post=0.125>",
    'Momentum <alpha=0.9, beta=0.3, norm_coefficient=0.0, mode="standard">',
    'Momentum <alpha=0.9, beta=0.3, norm_coefficient=0.2, mode="nesterov">',
]
SHAPES = ["[2,3]", "[N]", ""]


def model(call: str, dtype: str = "float", count: int = 1) -> tuple[str, list[str], list[str]]:
    """Return a model with one step of an optimizer, its outputs, and its float inputs."""
    tensors = ["X", "G", *STATES[call.split()[0]]]
    names = [f"{kind}{i}" for kind in tensors for i in range(count)]
    typed = ", ".join(f"{dtype}{SHAPES[int(name[1])]} {name}" for name in names)
    news = [f"{name}_new" for name in names if name[0] != "G"]
    results = ", ".join(f"{dtype}{SHAPES[int(name[1])]} {name}" for name in news)
    operator, _, attributes = call.partition(" ")
    node = (
        f"{', '.join(news)} = ai.onnx.preview.training.{operator} {attributes} "
        f"(R, T, {', '.join(names)})"
    )
    text = f"{HEAD} (float R, int64 T, {typed}) => ({results}) {{ {node} }}"
    return text, news, ["R", *names]


def arguments(names: list[str], count: int, dtype: type = np.float32) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {"R": np.float32(0.25), "T": np.int64(count)}
    for name in names[1:]:
        shape = [(2, 3), (4,), ()][int(name[1])]
        array = rng.uniform(0.5, 1, shape) if name[0] == "H" else rng.uniform(-1, 1, shape)
        feeds[name] = array.astype(dtype)
    return feeds


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("call", CALLS)
def test_step(call: str, count: int) -> None:
    text, news, names = model(call)
    feeds = arguments(names, count)
    assert_gradient(text, news, names, feeds, second_order=True, engine="reference")


@pytest.mark.parametrize("call", CALLS[1::2])
def test_several_tensors_of_another_type_than_the_rate(call: str) -> None:
    text, news, names = model(call, "double", 3)
    feeds = arguments(names, 2, np.float64)
    assert_gradient(text, news, names, feeds, engine="reference")


@pytest.mark.parametrize(("call", "slope"), [(CALLS[1], -25.0), (CALLS[3], None)])
def test_nothing_gathered_yet(call: str, slope: float | None) -> None:
    """A parameter that has had no gradient has a slope, ε below the fraction, and no NaN."""
    text, news, names = model(call)
    feeds = {name: np.zeros_like(value) for name, value in arguments(names, 0).items()}
    feeds["R"] = np.float32(0.25)
    gradient_model = whileback.vjp(ir.from_onnx_text(text), of=news[0], wrt=["X0", "G0", "H0"])
    ones = np.ones((2, 3), np.float32)
    x, g, h = list(compile(gradient_model)(feeds, X0_new_grad=ones).values())[-3:]
    assert np.isfinite(x).all() and np.isfinite(g).all()
    assert not h.any()
    if slope is not None:
        np.testing.assert_allclose(g, slope, rtol=1e-6)


def test_bias_correction_keeps_its_digits() -> None:
    """1 - βᵀ of the first steps is small: FLOAT would leave four digits of it."""
    text, news, names = model("Adam <alpha=0.0, beta=0.999, epsilon=0.0>")
    feeds = arguments(names, 3) | {name: np.ones((2, 3), np.float32) for name in ("G0", "V0", "H0")}
    feeds["X0"] = np.zeros((2, 3), np.float32)
    gradient_model = whileback.vjp(ir.from_onnx_text(text), of=news[0], wrt="R")
    ones = np.ones((2, 3), np.float32)
    results = compile(gradient_model)(feeds, X0_new_grad=ones)
    beta = float(np.float32(0.999))
    np.testing.assert_allclose(results["R_grad"], -6 * np.sqrt(1 - beta**3), rtol=2e-7)
