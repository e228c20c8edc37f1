"""What is known of integers that only the run tells is right, whatever they go through."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal

from whileback.engines.xla.control import loop

FOLLOWED = """
    a = Neg(k)
    b = Sub(k, a)
    c = Mul(b, b)
    d = Concat<axis = 0>(a, b, c, k)
    e, f = Split<axis = 0, num_outputs = 2>(d)
    g = Gather(f, one)
    h = Unsqueeze(g, zero)
    i = Squeeze(h, zero)
    j = ScatterElements<axis = 0>(d, zero, i)
    l = Reshape(j, back)
    m = Slice(l, zero, one, zero)
    o = Identity(m)
    p = Add(o, one)
"""


def test_follows_what_integers_go_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """p = k + 1, so that the slice has one element in every trip, and no trip is written out."""
    monkeypatch.delattr(loop, "unrolled")
    text = f"""(float X, int64 n) => (float y, int64 js)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] back = {{-1}}, bool yes = {{1}}>
    {{
        none = ReduceSum<keepdims = 1>(X)
        y, js = Loop(n, yes, none) <body = body (int64 trip, bool going, float[1] total)
            => (bool on, float[1] next, int64[4] row) {{
            on = Identity(going)
            k = Unsqueeze(trip, zero)
            {FOLLOWED}
            row = Identity(j)
            part = Slice(X, k, p, zero)
            next = Add(total, part)
        }}>
    }}"""
    assert_agrees(text, {"X": normal(6), "n": np.array(5)})
