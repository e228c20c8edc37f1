"""Conformance case H2: a local function named like a standard operator is what it says itself."""

from __future__ import annotations

import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.errors import NoGradientError
from whileback.gradient import vjp

MODEL = """<ir_version: 10, opset_import: ["" : 21, "loc" : 1]>
model (float[2] x) => (float[2] y) { t = loc.Tanh (x) y = Tanh (t) }
<domain: "loc", opset_import: ["" : 21]> Tanh (a) => (b) { b = Mul (a, a) }"""


def test_function_is_not_taken_for_the_operator() -> None:
    """y = tanh(x²), so dy/dx = 2x·(1 − y²)."""
    outputs = pullback(MODEL, "y", "x")(x=[0.5, -1], y_grad=[1, 3])
    assert_numbers(outputs, y=[0.24491866, 0.76159416], x_grad=[0.94001485, -2.51984605])
    assert_gradient(MODEL, ["y"], ["x"], second_order=True)


def test_function_calls_the_operator_of_its_own_name() -> None:
    text = MODEL.replace("b = Mul (a, a)", "c = Tanh (a) b = Mul (c, c)")
    assert_gradient(text, ["y"], ["x"])


def test_operator_of_another_domain_is_not_taken_for_the_standard_one() -> None:
    head = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]> model '
    model = parse(head + "(float[2] x) => (float[2] y) { t = my.Tanh (x) y = Tanh (t) }")
    model.graph[0].outputs[0].type = model.graph.inputs[0].type
    with pytest.raises(NoGradientError, match=r"my@1::Tanh"):
        vjp(model, of=["y"], wrt=["x"])
