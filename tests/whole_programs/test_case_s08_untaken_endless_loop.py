"""Conformance case S8: an untaken branch whose loop would never end is not run, forward or back."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp

ENDLESS = """l = Loop(, yes, x) <body = b%(n)d (int64 i, bool c, float[2] v)
      => (bool go, float[2] u) { go = Identity(c) u = Sin(v) }>
    %(out)s = Mul(l, w)"""
MODEL = """(bool p, float[2] x, float[2] w) => (float[2] y) {
  yes = Constant<value = bool {1}>()
  y = If(p) <then_branch = t () => (float[2] a) { %s },
    else_branch = e () => (float[2] o) { %s }>
}"""
FIRST = MODEL % (ENDLESS % {"n": 1, "out": "a"}, "o = Mul(x, w)")
SECOND = MODEL % ("a = Mul(x, w)", ENDLESS % {"n": 1, "out": "o"})


@pytest.mark.parametrize(("model", "taken"), [(FIRST, False), (SECOND, True)])
def test_by_hand(model: str, taken: bool) -> None:
    run = compile(vjp(parse(model), "y", ["x", "w"]))
    got = run(p=taken, x=[2.0, 3.0], w=[5.0, 7.0], y_grad=[1.0, 10.0])
    assert got["y"].tolist() == [10.0, 21.0]
    assert got["x_grad"].tolist() == [5.0, 70.0]
    assert got["w_grad"].tolist() == [2.0, 30.0]


@pytest.mark.parametrize(("model", "taken"), [(FIRST, False), (SECOND, True)])
def test_its_kind_second_order_included(model: str, taken: bool) -> None:
    assert_gradient(model, ["y"], ["x", "w"], {"p": np.array(taken)}, second_order=True)


def test_a_guard_inside_a_loop() -> None:
    """In each trip the other branch would run for ever."""
    endless = ENDLESS % {"n": 1, "out": "a"}
    text = f"""(bool p, int64 n, float[2] z, float[2] w) => (float[2] r) {{
      yes = Constant<value = bool {{1}}>()
      r = Loop(n, , z) <body = outer (int64 k, bool g, float[2] x) => (bool on, float[2] s) {{
        on = Identity(g)
        q = If(p) <then_branch = t () => (float[2] a) {{ {endless} }},
          else_branch = e () => (float[2] o) {{ o = Mul(x, w) }}>
        s = Sin(q)
      }}>
    }}"""
    assert_gradient(text, ["r"], ["z", "w"], {"p": np.array(False), "n": 3})
