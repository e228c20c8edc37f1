"""Straight-through gradients of convolutions of whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradient.rules.quantization.straight import judge

X = np.sin(np.arange(32, dtype=np.float32)).reshape(1, 2, 4, 4)
W = np.cos(np.arange(54, dtype=np.float32)).reshape(3, 2, 3, 3)
B = np.float32([0.3, -0.2, 0.5])

QUANTIZED = """
  sx = Constant<value = float {0.01}>() zx = Constant<value = uint8 {100}>()
  qx = QuantizeLinear(x, sx, zx)
  sw = Constant<value = %SCALE%>() zw = Constant<value = %ZERO%>()
  qw = QuantizeLinear<axis = 0>(w, sw, zw)
  sy = Constant<value = float {0.05}>() zy = Constant<value = uint8 {60}>()
"""
PARAMETERS = {
    "one for all": {"%SCALE%": "float {0.02}", "%ZERO%": "int8 {0}"},
    "by filters": {"%SCALE%": "float[3] {0.02, 0.01, 0.03}", "%ZERO%": "int8[3] {0, 0, 0}"},
}
ATTRIBUTES = ["", "<pads = [1, 1, 0, 1], strides = [2, 1]>", '<auto_pad = "SAME_UPPER">']


def model(body: str, parameters: dict[str, str], arguments: str = "") -> str:
    text = f"(float[1,2,4,4] x, float[3,2,3,3] w{arguments}) => (float[1,3,H,V] y) {{"
    text += f" {QUANTIZED} {body} }}"
    for mark, value in parameters.items():
        text = text.replace(mark, value)
    return text


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
def test_conv_is_that_of_floats(parameters: dict[str, str], attributes: str) -> None:
    bias = """t = Mul(sx, sw) shape = Constant<value_ints = [3]>() u = Expand(t, shape)
      o = Constant<value = int32[3] {0, 0, 0}>() k = Div(b, u) i = Cast<to = 6>(k)"""
    own = f"""{bias} r = QLinearConv{attributes}(qx, sx, zx, qw, sw, zw, sy, zy, i)
      d = DequantizeLinear(r, sy, zy) y = Sin(d)"""
    other = f"""{bias} dx = DequantizeLinear(qx, sx, zx) dw = DequantizeLinear<axis = 0>(qw, sw, zw)
      db = DequantizeLinear<axis = 0>(i, u) c = Conv{attributes}(dx, dw, db)
      r = QuantizeLinear(c, sy, zy) d = DequantizeLinear(r, sy, zy) y = Sin(d)"""
    inputs = {"x": X, "w": W, "b": B}
    got, want = (
        judge(model(body, parameters, ", float[3] b"), ["y"], ["x", "w"], inputs)
        for body in (own, other)
    )
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_conv_of_whole_numbers(attributes: str) -> None:
    body = f"""c = ConvInteger{attributes}(qx, v, zx, zv) f = Cast<to = 1>(c) m = Mul(f, sx)
      n = Mul(m, sw) y = Sin(n)"""
    v = "zv = Constant<value = uint8 {90}>() v = QuantizeLinear(w, sw, zv)"
    judge(model(f"{v} {body}", PARAMETERS["one for all"]), ["y"], ["x", "w"], {"x": X, "w": W})


def test_conv_of_whole_numbers_without_zero_points() -> None:
    body = """zv = Constant<value = uint8 {0}>() v = QuantizeLinear(w, sw, zv)
      c = ConvInteger(qx, v) f = Cast<to = 1>(c) m = Mul(f, sx) y = Mul(m, sw)"""
    judge(model(body, PARAMETERS["one for all"]), ["y"], ["x", "w"], {"x": X, "w": W})
