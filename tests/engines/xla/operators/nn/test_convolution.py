"""Convolutions agree with ONNX Runtime's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy.signal import convolve, correlate
from tests.engines.xla.operators.agreement import assert_agrees, normal
from tests.judge import parse

from whileback.engines import compile

CONVOLUTIONS = {
    "1d": ("", (2, 3, 9), (4, 3, 3)),
    "2d": ("pads = [1, 0, 2, 1], strides = [2, 1], dilations = [1, 2]", (2, 3, 9, 8), (4, 3, 3, 2)),
    "3d": ("strides = [1, 2, 1]", (1, 2, 5, 6, 4), (3, 2, 2, 3, 2)),
    "groups": ("group = 2", (2, 4, 6, 6), (6, 2, 3, 3)),
    "depthwise": ("group = 3, pads = [1, 1, 1, 1]", (1, 3, 6, 6), (6, 1, 3, 3)),
    "same upper": ('auto_pad = "SAME_UPPER", strides = [2, 3]', (1, 2, 7, 8), (2, 2, 4, 2)),
    "same lower": ('auto_pad = "SAME_LOWER", strides = [2, 3]', (1, 2, 7, 8), (2, 2, 4, 2)),
    "valid": ('auto_pad = "VALID", strides = [2, 2]', (1, 2, 7, 8), (2, 2, 4, 2)),
    "no images": ("", (0, 3, 5, 5), (4, 3, 3, 3)),
}

TRANSPOSED = {
    "1d": ("strides = [3]", (2, 3, 5), (3, 2, 4)),
    "2d": (
        "strides = [2, 3], pads = [1, 0, 0, 2], dilations = [2, 1], output_padding = [1, 2]",
        (2, 3, 4, 5),
        (3, 2, 3, 4),
    ),
    "groups": ("group = 2, strides = [2, 2]", (1, 4, 3, 3), (4, 3, 2, 2)),
    "3d": ("strides = [1, 2, 2]", (1, 2, 3, 3, 2), (2, 2, 2, 3, 2)),
    "same upper": ('auto_pad = "SAME_UPPER", strides = [2, 3]', (1, 2, 4, 4), (2, 2, 3, 4)),
    "same lower": ('auto_pad = "SAME_LOWER", strides = [2, 3]', (1, 2, 4, 4), (2, 2, 3, 4)),
    "same, short": ('auto_pad = "SAME_UPPER", strides = [3, 3]', (1, 2, 4, 4), (2, 2, 2, 2)),
    "shape": ("output_shape = [8, 9], strides = [2, 2]", (1, 2, 4, 4), (2, 2, 3, 3)),
    "longer": ("output_shape = [10, 10], strides = [2, 2]", (1, 2, 4, 4), (2, 2, 3, 3)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolves(name: str) -> None:
    attributes, x, w = CONVOLUTIONS[name]
    call = f"Conv<{attributes}>" if attributes else "Conv"
    text = f"(float X, float W, float B) => (float Y) {{ Y = {call}(X, W, B) }}"
    assert_agrees(text, {"X": normal(*x), "W": normal(*w), "B": normal(w[0])})


@pytest.mark.parametrize("name", TRANSPOSED)
def test_convolves_transposed(name: str) -> None:
    attributes, x, w = TRANSPOSED[name]
    text = f"(float X, float W) => (float Y) {{ Y = ConvTranspose<{attributes}>(X, W) }}"
    assert_agrees(text, {"X": normal(*x), "W": normal(*w)})


def test_convolves_doubles() -> None:
    X, W, D = (normal(*shape, dtype=np.float64) for shape in [(7, 8), (3, 4), (5, 5)])
    text = """(double[1, 1, 7, 8] X, double[1, 1, 3, 4] W, double[1, 1, 5, 5] D)
        => (double[1, 1, 5, 5] Y, double[1, 1, 7, 8] Z) {
        Y = Conv(X, W)
        Z = ConvTranspose(D, W)
    }"""
    arrays = {"X": X[None, None], "W": W[None, None], "D": D[None, None]}
    Y, Z = compile(parse(text), engine="xla")(arrays).values()
    np.testing.assert_allclose(Y[0, 0], correlate(X, W, "valid"), rtol=1e-12)
    np.testing.assert_allclose(Z[0, 0], convolve(D, W, "full"), rtol=1e-12)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_adds_up_in_float32(kind: str) -> None:
    text = (
        f"({kind}[1, 4096, 1] X, {kind}[1, 4096, 1] W) => ({kind}[1, 1, 1] Y) {{ Y = Conv(X, W) }}"
    )
    one = np.ones((1, 4096, 1), ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16)
    assert compile(parse(text, 22), engine="xla")({"X": one, "W": one})["Y"] == 4096


def _bytes(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(3).integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("points", ["", ", x0", ", x0, w0"])
def test_convolves_integers(points: str) -> None:
    text = f"""(uint8 X, uint8 W, uint8 x0, uint8 w0) => (int32 Y) {{
        Y = ConvInteger<pads = [1, 1, 0, 0], strides = [2, 1]>(X, W{points})
    }}"""
    inputs = {"X": _bytes(2, 3, 6, 5), "W": _bytes(4, 3, 3, 2)}
    assert_agrees(text, {**inputs, "x0": np.uint8(7), "w0": np.uint8(130)})


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_convolves_quantized_numbers(kind: str, per_channel: bool) -> None:
    dtype = np.dtype(kind).type
    text = f"""({kind} x, float xs, {kind} x0, int8 w, float ws, int8 w0, float ys, {kind} y0,
                int32 B) => ({kind} y) {{
        y = QLinearConv<pads = [1, 1, 1, 1]>(x, xs, x0, w, ws, w0, ys, y0, B)
    }}"""
    inputs = {
        "x": _bytes(1, 3, 5, 5, dtype=dtype),
        "xs": np.float32(0.02),
        "x0": dtype(11),
        "w": _bytes(4, 3, 3, 3, dtype=np.int8),
        "ws": np.float32([0.01, 0.02, 0.03, 0.04] if per_channel else 0.03),
        "w0": np.zeros(4 if per_channel else (), np.int8),
        "ys": np.float32(1.5),
        "y0": dtype(3),
        "B": np.int32([10, -2000, 0, 77]),
    }
    assert_agrees(text, inputs)


def test_deforms_windows() -> None:
    inputs = {
        "X": normal(2, 4, 6, 5),
        "W": normal(6, 2, 3, 2),
        "offset": normal(2, 2 * 3 * 2 * 2, 4, 3),
        "B": normal(6),
        "mask": normal(2, 2 * 3 * 2, 4, 3),
    }
    text = """(float[2, 4, 6, 5] X, float[6, 2, 3, 2] W, float[2, 24, 4, 3] offset, float[6] B,
               float[2, 12, 4, 3] mask) => (float[2, 6, 4, 3] Y) {
        Y = DeformConv<group = 2, offset_group = 2, pads = [1, 0, 1, 1], dilations = [2, 1],
                       strides = [1, 2], kernel_shape = [3, 2]>(X, W, offset, B, mask)
    }"""
    assert_agrees(text, inputs)
