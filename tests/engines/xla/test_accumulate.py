"""Small products of stacks are added up in the loop, and are what they would be after it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.engines.xla.accumulate import find_sums
from whileback.engines.xla.model import Model

MODEL = """(float[T,4] table, float[T,1,2] other, float[4] x) => (float[4] y, float[%OUT%] p) {
  y, rows = Scan(x, table) <num_scan_inputs = 1, scan_output_directions = [%TURN%],
    body = b (float[4] v, float[4] t) => (float[4] u, float[1,4] r) {
      %BODY%
      axis = Constant<value_ints = [0]>() r = Unsqueeze(u, axis)
  }>
  wide = Constant<value_ints = [-1, 4]>() narrow = Constant<value_ints = [-1, 2]>()
  flat = Reshape(rows, wide) read = Reshape(other, narrow)
  p = Gemm<transA = 1>(%FACTORS%)
}"""
PLAIN = "m = Mul(v, t) u = Sin(m)"
# The places of what is not zero, 0 + 1 + 2 + 3: their number must be known while compiling.
WRITTEN_OUT = """k = NonZero(t) c = Cast<to = 1>(k) s = ReduceSum<keepdims = 0>(c)
      m = Mul(v, t) q = Sin(m) u = Mul(q, s)"""


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("turned", ["0", "1"])
@pytest.mark.parametrize("factors, out", [("flat, read", "4,2"), ("read, flat", "2,4")])
@pytest.mark.parametrize("body", [PLAIN, WRITTEN_OUT], ids=["plain", "written out"])
def test_products_of_stacks(body: str, factors: str, out: str, turned: str, rows: int) -> None:
    text = MODEL.replace("%BODY%", body).replace("%FACTORS%", factors)
    model = parse(text.replace("%TURN%", turned).replace("%OUT%", out))
    assert len(find_sums(Model.of("m", model).graph).of) == 1
    rng = np.random.default_rng(rows)
    given = {"table": (rows, 4), "other": (rows, 1, 2), "x": (4,)}
    feeds = {k: rng.normal(size=shape).astype(np.float32) for k, shape in given.items()}
    y = compile(model, "xla")(feeds)
    v, p = feeds["x"], np.zeros((4, 2), np.float32)
    for t in range(rows):
        v = np.sin(v * feeds["table"][t]) * (6 if body is WRITTEN_OUT else 1)
        place = rows - 1 - t if turned == "1" else t
        p += np.outer(v, feeds["other"][place])
    np.testing.assert_allclose(y["y"], v, rtol=1e-5)
    np.testing.assert_allclose(y["p"], p.T if out == "2,4" else p, rtol=1e-5, atol=1e-6)


def test_a_stack_that_nothing_else_reads() -> None:
    """One of two loops writes it, only for the product that the other one adds up."""
    text = MODEL.replace("%BODY%", PLAIN).replace("%FACTORS%", "flat, read")
    copied = """{
      none, copy = Scan(x, other) <num_scan_inputs = 1,
        body = c (float[4] a, float[1,2] o) => (float[4] d, float[1,2] p) {
          d = Identity(a) p = Neg(o)
      }>"""
    model = parse(
        text.replace("{", copied, 1)
        .replace("Reshape(other", "Reshape(copy")
        .replace("%TURN%", "0")
        .replace("%OUT%", "4,2")
    )
    sums = find_sums(Model.of("m", model).graph)
    assert [each.read.name for found in sums.of.values() for each in found] == ["copy"]
    rng = np.random.default_rng(0)
    given = {"table": (3, 4), "other": (3, 1, 2), "x": (4,)}
    feeds = {k: rng.normal(size=shape).astype(np.float32) for k, shape in given.items()}
    expected = compile(model)(feeds)
    np.testing.assert_allclose(compile(model, "xla")(feeds)["p"], expected["p"], rtol=1e-5)
