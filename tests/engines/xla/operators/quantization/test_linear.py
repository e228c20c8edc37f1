"""Numbers of few bits agree with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal


def _round_trip(dtype: str, attributes: str, scale: np.ndarray, x: tuple[int, ...]) -> None:
    text = f"""(float X, float scale, {dtype} zero) => ({dtype} Q, float Y) {{
        Q = QuantizeLinear{attributes}(X, scale, zero)
        Y = DequantizeLinear{attributes}(Q, scale, zero)
    }}"""
    zero = np.full(scale.shape, 3, dtype)
    assert_agrees(text, {"X": 40 * normal(*x), "scale": scale, "zero": zero})


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantizes_tensors(dtype: str) -> None:
    _round_trip(dtype, "", np.float32(0.5), (3, 40))


def test_quantizes_axes() -> None:
    _round_trip("uint8", "<axis = -2>", np.float32([0.5, 0.25, 2]), (4, 3, 5))
    _round_trip("int8", "<axis = 0>", np.float32([0.5, 0.25, 2, 1]), (4, 3))


def test_quantizes_blocks() -> None:
    _round_trip("uint8", "<axis = 1, block_size = 2>", np.abs(normal(4, 3, 2)) + 0.1, (4, 5, 2))


def test_quantizes_halves() -> None:
    """Rounds what lies between two numbers to the even one, before the zero point is added."""
    text = "(float X, float s, int8 z) => (int8 Q) { Q = QuantizeLinear(X, s, z) }"
    X = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf])
    assert_agrees(text, {"X": X, "s": np.float32(1), "z": np.int8(1)})


def test_quantizes_by_what_it_sees() -> None:
    text = """(float X) => (uint8 Q, float scale, uint8 zero) {
        Q, scale, zero = DynamicQuantizeLinear(X)
    }"""
    assert_agrees(text, {"X": 3 * normal(4, 5)})


def test_multiplies_integers() -> None:
    text = """(uint8 A, int8 B, uint8 a, int8 b) => (int32 Y, int32 Z) {
        Y = MatMulInteger(A, B, a, b) Z = MatMulInteger(A, B)
    }"""
    draw = np.random.default_rng(0).integers
    inputs = {
        "A": draw(0, 255, (2, 4, 6)).astype(np.uint8),
        "B": draw(-128, 127, (6, 3)).astype(np.int8),
        "a": np.uint8(7),
        "b": np.int8([1, 2, -3]),
    }
    assert_agrees(text, inputs)


def test_multiplies_quantized() -> None:
    text = """(uint8 A, float s, uint8 a, int8 B, float t, int8 b, float u, uint8 y)
        => (uint8 Y) { Y = QLinearMatMul(A, s, a, B, t, b, u, y) }"""
    draw = np.random.default_rng(0).integers
    inputs = {
        "A": draw(0, 255, (4, 6)).astype(np.uint8),
        "s": np.float32(0.02),
        "a": np.uint8(7),
        "B": draw(-128, 127, (6, 3)).astype(np.int8),
        "t": np.float32([0.01, 0.03, 0.02]),
        "b": np.int8([0, 2, -3]),
        "u": np.float32(0.05),
        "y": np.uint8(100),
    }
    assert_agrees(text, inputs)
