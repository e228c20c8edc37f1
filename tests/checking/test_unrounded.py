"""The model that a quantised one stands for."""

from __future__ import annotations

import numpy as np
from tests.judge import parse

from whileback.checking.unrounded import without_rounding
from whileback.engines import compile
from whileback.graph.scopes import walk
from whileback.graph.shapes import NARROW


def test_nothing_is_rounded_but_all_is_clipped() -> None:
    model = parse("""(float[4] x) => (float[4] y) {
      s = Constant<value = float {0.5}>() z = Constant<value = int8 {3}>()
      q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)
    }""")
    x = np.float32([0.3, -1.7, 90, -90])
    got = compile(without_rounding(model))(x=x)["y"]
    np.testing.assert_allclose(got, [0.3, -1.7, 62, -65.5], rtol=1e-6)
    np.testing.assert_array_equal(compile(model)(x=x)["y"], np.float32([0.5, -1.5, 62, -65.5]))


def test_no_whole_number_is_left_of_what_was_rounded() -> None:
    """In bodies, in branches that give constants, and where types must agree."""
    model = parse("""(float[4] x, int8[4] more, int64 n, bool c) => (float[4] y) {
      s = Constant<value = float {0.5}>() z = Constant<value = int8 {0}>()
      q = QuantizeLinear(x, s, z)
      last = Loop(n, , more) <body = b (int64 i, bool go, int8[4] v) => (bool on, int8[4] w) {
        on = Identity(go)
        w = If(c) <
          then_branch = t1 () => (int8[4] e) { e = Max(v, q) },
          else_branch = t2 () => (int8[4] g) { g = Identity(more) }>
      }>
      y = DequantizeLinear(last, s, z)
    }""")
    plain = without_rounding(model)
    rest = [v.name for node in walk(plain.graph) for v in node.outputs if v.dtype in NARROW]
    assert rest == ["g"]
    feeds = {"x": np.float32([0.3, -1.7, 3, 90]), "more": np.array([1, 2, 3, 4], np.int8)}
    for condition, want in ((True, [0.5, 1, 3, 63.5]), (False, [0.5, 1, 1.5, 2])):
        got = compile(plain)({**feeds, "n": 2, "c": condition})["y"]
        np.testing.assert_allclose(got, want)


def test_the_scale_of_dynamic_quantisation_stays() -> None:
    model = parse("""(float[3] x) => (float[3] y, float s) {
      q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)
    }""")
    x = np.float32([-1.1, 0.3, 4])
    got, want = compile(without_rounding(model))(x=x), compile(model)(x=x)
    np.testing.assert_allclose(got["y"], x, rtol=1e-6)
    assert got["s"] == want["s"]
