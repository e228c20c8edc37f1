"""Straight-through gradients of products of whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradient.rules.quantization.straight import gradients, judge

A = np.float32([[0.3, -1.2, 0.9], [1.1, 0.6, -0.2]])
B = np.float32([[0.5, 0.1], [-0.7, 1.3], [0.4, -1.6]])

QUANTIZED = """
  sa = Constant<value = float {0.02}>() za = Constant<value = uint8 {100}>()
  qa = QuantizeLinear(a, sa, za)
  sb = Constant<value = float {0.03}>() zb = Constant<value = int8 {5}>()
  qb = QuantizeLinear(b, sb, zb)
"""
MODEL = "(float[2,3] a, float[3,2] b) => (float[2,2] y) {"


def test_a_product_of_whole_numbers_is_that_of_floats() -> None:
    body = f"""{MODEL} {QUANTIZED}
      p = MatMulInteger(qa, qb, za, zb) c = Cast<to = 1>(p) m = Mul(c, sa) n = Mul(m, sb)
      y = Sin(n)
    }}"""
    got = judge(body, ["y"], ["a", "b"], {"a": A, "b": B})
    dequantized = f"""{MODEL} {QUANTIZED}
      da = DequantizeLinear(qa, sa, za) db = DequantizeLinear(qb, sb, zb)
      n = MatMul(da, db) y = Sin(n)
    }}"""
    want = judge(dequantized, ["y"], ["a", "b"], {"a": A, "b": B})
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5)


def test_dynamically_quantised() -> None:
    body = """(float[2,3] a) => (float[2,2] y) {
      wq = Constant<value = int8[3,2] {5, -7, 12, 90, -100, 3}>()
      sw = Constant<value = float {0.03}>()
      q, s, z = DynamicQuantizeLinear(a)
      p = MatMulInteger(q, wq, z) c = Cast<to = 1>(p) m = Mul(s, sw) y = Mul(c, m)
    }"""
    cotangent = np.float32([[1, 2], [-0.5, 0.25]])
    judge(body, ["y"], ["a"], {"a": A})
    W = 0.03 * np.array([[5, -7], [12, 90], [-100, 3]])
    got = gradients(body, {"a": A}, cotangent)["a"]
    np.testing.assert_allclose(got, cotangent @ W.T, rtol=1e-5)


@pytest.mark.parametrize("scale", ["float {0.03}", "float[2] {0.03, 0.05}"])
def test_zero_points_and_scales_by_column(scale: str) -> None:
    zero = "int8 {5}" if "[2]" not in scale else "int8[2] {5, -3}"
    quantized = QUANTIZED.replace("float {0.03}", scale).replace("int8 {5}", zero)
    body = f"""{MODEL} {quantized}
      p = MatMulInteger(qa, qb, za, zb) c = Cast<to = 1>(p) m = Mul(c, sa) n = Mul(m, sb)
      sy = Constant<value = float {{0.05}}>() zy = Constant<value = uint8 {{10}}>()
      r = QLinearMatMul(qa, sa, za, qb, sb, zb, sy, zy) d = DequantizeLinear(r, sy, zy)
      e = Add(n, d) y = Sin(e)
    }}"""
    got = judge(body, ["y"], ["a", "b"], {"a": A, "b": B})
    dequantized = f"""{MODEL} {quantized}
      da = DequantizeLinear(qa, sa, za) db = DequantizeLinear(qb, sb, zb)
      n = MatMul(da, db)
      sy = Constant<value = float {{0.05}}>() zy = Constant<value = uint8 {{10}}>()
      r = QuantizeLinear(n, sy, zy) d = DequantizeLinear(r, sy, zy)
      e = Add(n, d) y = Sin(e)
    }}"""
    want = judge(dequantized, ["y"], ["a", "b"], {"a": A, "b": B})
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5)


def test_a_vector_times_a_matrix() -> None:
    body = f"""(float[3] a, float[3,2] b) => (float[2] y) {{ {QUANTIZED}
      k = Constant<value_ints = [0]>() z = Unsqueeze(za, k)
      p = MatMulInteger(qa, qb, z, zb) y = Cast<to = 1>(p)
    }}"""
    judge(body, ["y"], ["a", "b"], {"a": A[0], "b": B})
