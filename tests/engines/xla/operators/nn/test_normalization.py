"""Normalizations agree with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal


def _statistics(channels: int) -> dict[str, np.ndarray]:
    inputs = {name: normal(channels, seed=k) for k, name in enumerate(["scale", "B", "mean"])}
    return {**inputs, "var": np.abs(normal(channels, seed=9)) + 0.1}


SIGNATURE = "float X, float[3] scale, float[3] B, float[3] mean, float[3] var"


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5)])
def test_normalizes_batches(shape: tuple[int, ...]) -> None:
    call = "BatchNormalization<epsilon = 0.01>(X, scale, B, mean, var)"
    text = f"({SIGNATURE}) => (float Y) {{ Y = {call} }}"
    assert_agrees(text, {"X": normal(*shape), **_statistics(3)})


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5)])
def test_trains(shape: tuple[int, ...]) -> None:
    text = f"""({SIGNATURE}) => (float Y, float[3] m, float[3] v) {{
        Y, m, v = BatchNormalization<training_mode = 1, momentum = 0.8>(X, scale, B, mean, var)
    }}"""
    assert_agrees(text, {"X": normal(*shape), **_statistics(3)})


def test_normalizes_instances() -> None:
    text = """(float X, float[3] scale, float[3] B) => (float Y) {
        Y = InstanceNormalization<epsilon = 0.01>(X, scale, B)
    }"""
    assert_agrees(text, {"X": normal(2, 3, 4, 5), "scale": normal(3), "B": normal(3, seed=1)})


@pytest.mark.parametrize("size", [1, 3, 9])
def test_normalizes_responses(size: int) -> None:
    text = f"(float X) => (float Y) {{ Y = LRN<size = {size}, alpha = 0.2, bias = 0.5>(X) }}"
    assert_agrees(text, {"X": normal(2, 5, 3, 4)})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("p", [1, 2])
def test_divides_by_norms(axis: int, p: int) -> None:
    X = normal(3, 4, 5)
    X[:, 1] = 0
    X[1] = 0
    text = f"(float X) => (float Y) {{ Y = LpNormalization<axis = {axis}, p = {p}>(X) }}"
    assert_agrees(text, {"X": X})
