"""Pools agree with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal

WINDOWS = {
    "1d": ("kernel_shape = [3], strides = [2]", (2, 3, 9)),
    "2d": ("kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 2, 1]", (2, 3, 9, 8)),
    "3d": ("kernel_shape = [2, 3, 2], strides = [1, 2, 2]", (1, 2, 5, 6, 4)),
    "ceil": ("kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1", (1, 2, 8, 6)),
    "ceil, padded": (
        "kernel_shape = [3, 2], strides = [2, 3], ceil_mode = 1, pads = [1, 1, 2, 1]",
        (1, 2, 7, 8),
    ),
    "ceil, last window outside": (
        "kernel_shape = [1, 2], strides = [2, 2], ceil_mode = 1, pads = [0, 0, 0, 1]",
        (1, 1, 6, 4),
    ),
    "dilated": ("kernel_shape = [2, 3], dilations = [2, 2], pads = [1, 1, 0, 1]", (1, 2, 7, 8)),
    "same upper": (
        'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_UPPER"',
        (1, 2, 7, 8),
    ),
    "same lower": (
        'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_LOWER"',
        (1, 2, 7, 8),
    ),
    "valid": ('kernel_shape = [3, 2], strides = [2, 3], auto_pad = "VALID"', (1, 2, 7, 8)),
    "no images": ("kernel_shape = [2, 2]", (0, 2, 4, 4)),
}


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("name", WINDOWS)
def test_averages(name: str, include: int) -> None:
    attributes, shape = WINDOWS[name]
    call = f"AveragePool<{attributes}, count_include_pad = {include}>"
    assert_agrees(f"(float X) => (float Y) {{ Y = {call}(X) }}", {"X": normal(*shape)})


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("name", WINDOWS)
def test_finds_maxima(name: str, order: int) -> None:
    attributes, shape = WINDOWS[name]
    text = f"""(float X) => (float Y, int64 I, float Z) {{
        Y, I = MaxPool<{attributes}, storage_order = {order}>(X)
        Z = MaxPool<{attributes}>(X)
    }}"""
    assert_agrees(text, {"X": np.round(normal(*shape), 0)})


@pytest.mark.parametrize("kind", ["int8", "uint8", "double"])
def test_finds_maxima_of_other_types(kind: str) -> None:
    X = normal(2, 2, 5, 5) * 50
    X = (X if kind != "uint8" else abs(X)).astype(kind)
    call = "MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>"
    assert_agrees(f"({kind} X) => ({kind} Y) {{ Y = {call}(X) }}", {"X": X})


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("name", WINDOWS)
def test_takes_norms(name: str, p: int) -> None:
    attributes, shape = WINDOWS[name]
    text = f"(float X) => (float Y) {{ Y = LpPool<{attributes}, p = {p}>(X) }}"
    assert_agrees(text, {"X": normal(*shape)})


@pytest.mark.parametrize("call", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool<p = 3>"])
def test_pools_all(call: str) -> None:
    assert_agrees(f"(float X) => (float Y) {{ Y = {call}(X) }}", {"X": normal(2, 3, 4, 5)})


def test_undoes_pools() -> None:
    text = """(float X) => (float Y) {
        P, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
        Y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(P, I)
    }"""
    assert_agrees(text, {"X": normal(2, 3, 4, 6)})


def test_adds_columns_up() -> None:
    text = """(float X, int64[2] image, int64[2] block) => (float Y) {
        Y = Col2Im<strides = [2, 1], pads = [1, 0, 0, 2], dilations = [1, 2]>(X, image, block)
    }"""
    inputs = {"X": normal(2, 3 * 6, 3 * 3), "image": np.int64([6, 5]), "block": np.int64([2, 3])}
    assert_agrees(text, inputs)
