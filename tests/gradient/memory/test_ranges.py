"""Rows that are picked by numbers one after the other: which of them are cut out instead."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.gradient import vjp
from whileback.graph.scopes import is_loop, loop_view

LOOP = """(int64 M, float[2,N] x, float[N] y) => (float[2,K] z) {
  z = Loop(M, , x) <body = b (int64 i, bool c, float[2,P] p) => (bool d, float[2,Q] q) {
    d = Identity(c)
    one = Constant<value_ints = [1]>()
    s0 = Constant<value_int = 0>()
    s1 = Constant<value_int = 1>()
    s2 = Constant<value_int = 2>()
    minus = Constant<value_int = -1>()
    n = Shape<start = 1>(p)
    size = Squeeze(n)
    half = Div(size, s2)
    less = Sub(size, s1)
    more = Add(size, s1)
    m = Shape(y)
    other = Squeeze(m)
    rows = Shape<end = 1>(p)
    high = Squeeze(rows)
    r = Range(%s)
    g = Gather<axis = 1>(p, r)
    q = Sin(g)
  }>
}"""


@pytest.mark.parametrize(
    ("numbers", "operator"),
    [
        ("s0, size, s1", "Slice"),
        ("s2, size, s1", "Slice"),
        ("s1, less, s1", "Slice"),
        ("s0, more, s1", "Gather"),
        ("s0, half, s1", "Gather"),
        ("s0, other, s1", "Gather"),
        ("s0, high, s1", "Gather"),
        ("minus, size, s1", "Gather"),
        ("i, size, s1", "Gather"),
        ("s0, size, s2", "Gather"),
    ],
)
def test_what_surely_ends_where_the_tensor_ends_is_cut_out(numbers: str, operator: str) -> None:
    model = vjp(parse(LOOP % numbers), ["z"], ["x"])
    forward = next(node for node in model.graph if is_loop(node) and "z" in node.outputs[0].name)
    types = [node.op_type for node in loop_view(forward).body]
    assert [each for each in types if each in ("Gather", "Slice")] == [operator]


@pytest.mark.parametrize("trips", [0, 2, 4])
def test_nothing_is_cut_out_of_nothing(trips: int) -> None:
    inputs = {"M": np.int64(trips), "x": np.ones((2, 3), np.float32), "y": np.ones(3, np.float32)}
    assert_gradient(LOOP % "s1, less, s1", ["z"], ["x"], inputs)
