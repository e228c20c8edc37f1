import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import assert_gradient

from whileback.gradient.registry import entries


@pytest.mark.parametrize("operator", ["Ceil", "Floor", "Round", "Sign"])
def test_steps_pass_nothing_on(operator):
    model = f"(float[3] x) => (float[3] y) {{ s = {operator}(x) y = Mul(s, x) }}"
    assert_gradient(model, ["y"], ["x"])


def test_comparisons_and_positions_pass_nothing_on():
    model = """(float[3] x) => (float[3] y) <float zero = {0}> {
      c = Greater(x, zero)
      i = ArgMax<keepdims = 0>(x)
      g = Gather(x, i)
      h = Hardmax(x)
      p = Mul(g, h)
      y = Where(c, p, zero)
    }"""
    assert gradients(model, {"x": [1, 3, -2]}, [2, 5, 7])["x"].tolist() == [0, 5, 0]


def test_every_entry_has_either_a_rule_or_a_reason():
    for entry in entries():
        assert (entry.rule is None) == bool(entry.reason), entry
