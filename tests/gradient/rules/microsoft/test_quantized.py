"""ONNX Runtime's quantised operators have the gradients of what they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradient.rules.quantization.straight import judge
from tests.judge import parse

from whileback.errors import UnsupportedError
from whileback.gradient import vjp

HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> model '
X = np.sin(1.7 * np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
GIVEN = """
  s = Constant<value = float {0.01}>() z = Constant<value = uint8 {120}>()
  sw = Constant<value = float {0.012}>() zw = Constant<value = uint8 {130}>()
  t = Constant<value = float {0.013}>() u = Constant<value = uint8 {110}>()
  q = QuantizeLinear(x, s, z) w = QuantizeLinear(v, sw, zw)
"""
FLOATS = "a = DequantizeLinear(q, s, z) b = DequantizeLinear(w, sw, zw)"

# What ONNX Runtime has one operator for, and the same with operators on floats.
CASES = {
    "add": ("r = com.microsoft.QLinearAdd(q, s, z, w, sw, zw, t, u)", "f = Add(a, b)"),
    "mul": ("r = com.microsoft.QLinearMul(q, s, z, w, sw, zw, t, u)", "f = Mul(a, b)"),
    "same twice": ("r = com.microsoft.QLinearMul(q, s, z, q, s, z, t, u)", "f = Mul(a, a)"),
    "concat": (
        "r = com.microsoft.QLinearConcat<axis = 1>(t, u, q, s, z, w, sw, zw)",
        "f = Concat<axis = 1>(a, b)",
    ),
    "where": (
        "c = Less(x, v) r = com.microsoft.QLinearWhere(c, q, s, z, w, sw, zw, t, u)",
        "c = Less(x, v) f = Where(c, a, b)",
    ),
    "sigmoid": ("r = com.microsoft.QLinearSigmoid(q, s, z, t, u)", "f = Sigmoid(a)"),
    "leaky": (
        "r = com.microsoft.QLinearLeakyRelu<alpha = 0.2>(q, s, z, t, u)",
        "f = LeakyRelu<alpha = 0.2>(a)",
    ),
    "softmax": (
        "r = com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(q, s, z, t, u)",
        "f = Softmax<axis = 1>(a)",
    ),
    "old softmax": (
        "r = com.microsoft.QLinearSoftmax<axis = 1, opset = 11>(q, s, z, t, u)",
        "h = Flatten<axis = 1>(a) g = Softmax(h) k = Shape(a) f = Reshape(g, k)",
    ),
    "pool": (
        "r = com.microsoft.QLinearAveragePool<kernel_shape = [2], pads = [1, 0]>(q, s, z, t, u)",
        "f = AveragePool<kernel_shape = [2], pads = [1, 0]>(a)",
    ),
    "pool, channels last": (
        """r = com.microsoft.QLinearAveragePool<kernel_shape = [2], channels_last = 1>
           (q, s, z, t, u)""",
        """h = Transpose<perm = [0, 2, 1]>(a) g = AveragePool<kernel_shape = [2]>(h)
           f = Transpose<perm = [0, 2, 1]>(g)""",
    ),
    "conv, channels last": (
        """k = Constant<value_ints = [4, 3, 2]>() w2 = Reshape(w, k)
           p = Transpose<perm = [0, 2, 1]>(q)
           r = com.microsoft.QLinearConv<channels_last = 1>(p, s, z, w2, sw, zw, t, u)""",
        """k = Constant<value_ints = [4, 3, 2]>() c = Reshape(b, k)
           g = Conv(a, c) f = Transpose<perm = [0, 2, 1]>(g)""",
    ),
    "global pool": (
        "r = com.microsoft.QLinearGlobalAveragePool(q, s, z, t, u)",
        "f = GlobalAveragePool(a)",
    ),
}


def model(body: str) -> str:
    return f"""{HEADER} (float[2,3,4] x, float[2,3,4] v) => (float[] y) {{
      {GIVEN} {body} d = DequantizeLinear(r, t, u) y = Sin(d)
    }}"""


@pytest.mark.parametrize("own, floats", CASES.values(), ids=CASES)
def test_it_is_that_of_floats(own: str, floats: str) -> None:
    inputs = {"x": X, "v": np.cos(X)}
    wrt = ["x", "v"] if "w" in own.partition("(")[2] else ["x"]
    kinks = "Leaky" in floats
    got = judge(model(own), ["y"], wrt, inputs, kinks=kinks)
    text = model(f"{FLOATS} {floats} r = QuantizeLinear(f, t, u)")
    want = judge(text, ["y"], wrt, inputs, kinks=kinks)
    for name, value in want.items():
        # The cosine is that of a rounded number, which may be another one in a few places.
        np.testing.assert_allclose(got[name], value, rtol=0.02, atol=2e-3)


MATRICES = f"""{HEADER} (float[2,3] x, float[3,4] v) => (float[2,4] y) {{"""
GEMMS = {
    "": ("r = com.microsoft.QGemm(q, s, z, w, sw, zw, , t, u)", "f = Gemm(a, b)"),
    "bias": (
        "r = com.microsoft.QGemm<alpha = 0.5>(q, s, z, w, sw, zw, i, t, u)",
        "g = Gemm<alpha = 0.5>(a, b) f = Add(g, j)",
    ),
    "floats": ("y = com.microsoft.QGemm(q, s, z, w, sw, zw)", "y = Gemm(a, b)"),
    "transposed": (
        """k = Constant<value_ints = [4, 3]>() w2 = Reshape(w, k)
           r = com.microsoft.QGemm<transB = 1>(q, s, z, w2, sw, zw, , t, u)""",
        "k = Constant<value_ints = [4, 3]>() c = Reshape(b, k) f = Gemm<transB = 1>(a, c)",
    ),
}


@pytest.mark.parametrize("own, floats", GEMMS.values(), ids=GEMMS)
def test_gemm(own: str, floats: str) -> None:
    bias = """i = Constant<value = int32[4] {10, -2000, 300, 7}>() i1 = Cast<to = 1>(i)
      i2 = Mul(i1, s) i3 = Mul(i2, sw) half = Constant<value_float = 0.5>() j = Mul(i3, half)"""
    back = "" if "y =" in own else "d = DequantizeLinear(r, t, u) y = Sin(d)"
    again = "" if "y =" in own else f"r = QuantizeLinear(f, t, u) {back}"
    inputs = {"x": X[:, :, 0], "v": X[0]}
    got = judge(f"{MATRICES} {GIVEN} {bias} {own} {back} }}", ["y"], ["x", "v"], inputs)
    text = f"{MATRICES} {GIVEN} {bias} {FLOATS} {floats} {again} }}"
    want = judge(text, ["y"], ["x", "v"], inputs)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=0.02, atol=2e-3)


def test_channels_of_an_unknown_rank_are_refused_with_what_to_do() -> None:
    text = f"""{HEADER} (float[N] x, float v, int64[R] shape) => (float[] y) {{
      {GIVEN} p = Reshape(q, shape)
      r = com.microsoft.QLinearGlobalAveragePool<channels_last = 1>(p, s, z, t, u)
      y = DequantizeLinear(r, t, u)
    }}"""
    with pytest.raises(UnsupportedError) as caught:
        vjp(parse(text), "y", "x", quantized="straight-through")
    assert str(caught.value) == (
        "Node 'QLinearGlobalAveragePool' (QLinearGlobalAveragePool) has the channels as the last "
        "axis of 'p', whose rank is not known. Declare its shape; dimensions may be symbols."
    )
