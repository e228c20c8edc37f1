"""Cotangents of slices that touch are joined, those of others are added."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.gradient import gradient

CUT = """(double[N,6] x) => (double loss) {{
  {constants}
  a = Slice(x, {a}) s = Sin(a) b = Slice(x, {b}) c = Cos(b) d = Slice(x, {c}) e = Exp(d)
  f = ReduceSum<keepdims = 0>(s) g = ReduceSum<keepdims = 0>(c) h = ReduceSum<keepdims = 0>(e)
  loss = Sum(f, g, h)
}}"""


@pytest.mark.parametrize(
    ("ranges", "operators"),
    [
        ([(0, 2), (2, 3), (3, 6)], ["Concat", "Concat"]),
        ([(3, 6), (2, 3), (0, 2)], ["Concat", "Concat"]),
        ([(1, 2), (2, 3), (3, 5)], ["Concat", "Concat", "Pad"]),
        ([(0, 3), (2, 5), (3, 6)], ["Add", "Add", "Pad", "Pad", "Pad"]),
        ([(0, 2), (3, 4), (4, 6)], ["Add", "Concat", "Pad", "Pad"]),
    ],
)
def test_slices_of_one_value(ranges, operators):
    numbers = range(7)
    constants = " ".join(f"n{k} = Constant<value_ints = [{k}]>()" for k in numbers)
    cuts = [f"n{begin}, n{end}, n1" for begin, end in ranges]
    text = CUT.format(constants=constants, **dict(zip("abc", cuts, strict=True)))
    model = gradient(parse(text), "loss", ["x"])
    found = sorted(n.op_type for n in model.graph if n.op_type in ("Add", "Concat", "Pad"))
    assert found == operators
    assert_gradient(text, ["loss"], ["x"], {"x": np.random.default_rng(0).normal(size=(2, 6))})
