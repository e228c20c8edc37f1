"""Conformance case S14: functions of the model, also with a loop in them, have gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import pullback

HEAD = '<ir_version: 10, opset_import: ["" : 21, "loc" : 1]> model '
INLINE = """(float[2] x, float[2] w, int64 n) => (float[2] y) {
  y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] r) {
    d = Identity (c) s = Mul (v, w) r = Tanh (s) }> }"""
CALLED = f"""{HEAD}(float[2] x, float[2] w, int64 n) => (float[2] y) {{ y = loc.Repeat (n, x, w) }}
<domain: "loc", opset_import: ["" : 21, "loc" : 1]>
Repeat (n, x, w) => (y) {{
  y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] r) {{
    d = Identity (c) r = loc.Step (v, w) }}> }}
<domain: "loc", opset_import: ["" : 21]> Step (v, w) => (r) {{ s = Mul (v, w) r = Tanh (s) }}"""


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_same_gradient_as_written_out(trips: int) -> None:
    feeds = {"x": [0.5, -1], "w": [1.5, 0.25], "n": trips, "y_grad": [1, 3]}
    want, got = (pullback(text, "y", "x w")(**feeds) for text in (INLINE, CALLED))
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)
    assert_gradient(CALLED, ["y"], ["x", "w"], {"n": trips})


def test_called_twice_and_from_a_branch() -> None:
    text = f"""{HEAD}(float[2] x, float[2] w, bool c) => (float[2] z) {{
      y = loc.Scale <by = 3.0> (x, w)
      z = If (c) <then_branch = t () => (float[2] p) {{ p = loc.Scale (y, w) }},
                  else_branch = e () => (float[2] q) {{ q = loc.Scale <by = 2.0> (w, y) }}> }}
    <domain: "loc", opset_import: ["" : 21]>
    Scale <by: float = 0.5> (a, b) => (r) {{
      k = Constant <value_float: float = @by> () s = Mul (a, k) t = Sin (b) r = Mul (s, t) }}"""
    for c in (True, False):
        assert_gradient(text, ["z"], ["x", "w"], {"c": c}, second_order=True)
