"""Which nodes give other numbers when they run again."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.graph.randomness import draws, may_draw


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Neg (x)", False),
        ("RandomNormalLike (x)", True),
        ("Bernoulli (x)", True),
        ("Dropout (x)", False),
        ("Dropout (x, ratio, training)", True),
        ("my.domain.Bernoulli (x)", False),
    ],
)
def test_operators_that_draw(call: str, expected: bool) -> None:
    model = parse(f"(float[2] x, float ratio, bool training) => (float[2] y) {{ y = {call} }}")
    assert draws(model.graph[0]) is expected


def test_dropout_may_draw_in_any_mode() -> None:
    assert may_draw(ir.node("Dropout", [ir.val("x")]))


def test_a_node_draws_if_one_inside_it_does() -> None:
    model = parse("""(bool p, float[2] x) => (float[2] y) {
      y = If (p) <then_branch = t () => (float[2] a) { a = Bernoulli (x) },
                  else_branch = e () => (float[2] b) { b = Neg (x) }>
    }""")
    assert draws(model.graph[0])
    assert not may_draw(model.graph[0])
