"""Types and shapes of ONNX Runtime's quantised operators."""

from __future__ import annotations

import pytest
from tests.judge import parse

from whileback.graph.normalize import normalize
from whileback.graph.shapes import describe

HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> model '
INPUTS = """(uint8[B,3,4] q, uint8[1,3,1] r, int8[8,3,2] w, uint8[2,3] m, uint8[3,N] n, float s,
  uint8 z, int8 i, float[B] x)"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("QuantizeLinear(x, s, i)", "INT8[B]"),
        ("DequantizeLinear(q, s, z)", "FLOAT[B,3,4]"),
        ("QLinearSigmoid(q, s, z, s, z)", "UINT8[B,3,4]"),
        ("QLinearAdd(q, s, z, r, s, z, s, z)", "UINT8[B,3,4]"),
        ("QLinearMul(r, s, , q, s, , s)", "UINT8[B,3,4]"),
        ("QLinearConcat<axis = 1>(s, z, q, s, z, q, s, z)", "UINT8[B,_d0,4]"),
        ("QLinearConcat<axis = 1>(s, i, q, s, z, q, s, z)", "INT8[B,_d0,4]"),
        ("QLinearConv(q, s, z, w, s, i, s, z)", "UINT8[B,8,_d0]"),
        ("QLinearConv<channels_last = 1>(q, s, z, w, s, i, s, z)", "UINT8[B,_d0,8]"),
        ("QLinearGlobalAveragePool(q, s, z, s, z)", "UINT8[B,3,_d0]"),
        ("QLinearAveragePool<channels_last = 1>(q, s, z, s, z)", "UINT8[B,_d0,4]"),
        ("QGemm(m, s, z, n, s, z)", "FLOAT[2,N]"),
        ("QGemm<transA = 1, transB = 1>(n, s, z, m, s, z, , s, i)", "INT8[N,2]"),
        ("Unknown(q)", "?[?]"),
    ],
)
def test_what_is_known(call: str, expected: str) -> None:
    model = parse(f"{HEADER} {INPUTS} => (float f) {{ y = com.microsoft.{call} f = Neg(s) }}")
    graph = normalize(model).graph
    assert describe(graph[0].outputs[0]) == expected
