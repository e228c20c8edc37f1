"""The judge of the corpus is shown gradients that are wrong in every way that it claims to see."""

import dataclasses

import numpy as np
import onnx_ir as ir
import pytest
from tests.corpus.cases import Case, cases
from tests.corpus.verdicts import Verdict, judge

from whileback.gradient import registry


def case(text, opset=21, **feeds):
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')
    of = [str(value.name) for value in model.graph.outputs]
    return Case("test", "?", model, feeds, of, list(feeds))


@pytest.fixture
def replace_rule(monkeypatch):
    def replace(operator, **changes):
        key = ("", operator)
        changed = dataclasses.replace(registry._ENTRIES[key], **changes)
        monkeypatch.setitem(registry._ENTRIES, key, changed)

    return replace


X = np.float32([0.5, -1, 2])


@pytest.mark.parametrize("order", [1, 2])
def test_a_right_gradient(order):
    assert judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X), order) == Verdict(
        "passed"
    )


@pytest.mark.parametrize("order", [1, 2])
def test_no_gradient(order):
    verdict = judge(case("(float[3] x) => (float[3] y) { y = Floor(x) }", x=X), order)
    assert verdict == Verdict(
        "not differentiable",
        "Floor: its output jumps from one whole number to another and is constant in between",
    )


def test_an_input_that_nothing_depends_on():
    model = case("(float[3] x) => (float[3] y) { s = Shape(x) y = ConstantOfShape(s) }", x=X)
    assert judge(model).detail == (
        "Shape: its output depends on the shape of its input, not on the elements"
    )


def test_a_wrong_reason_for_no_gradient(replace_rule):
    replace_rule("Sin", rule=None, reason="nobody knows")
    verdict = judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X))
    assert verdict.status == "wrong"
    assert "WRONG" in verdict.detail


@pytest.mark.parametrize("factor", [1.001, 0.0, float("nan")])
def test_a_wrong_rule(replace_rule, factor):
    replace_rule(
        "Sin", rule=lambda op, node, dY: op.Mul(dY, op.Mul(op.Cos(node.inputs[0]), factor))
    )
    assert judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X)).status == "wrong"


def test_a_wrong_second_order(replace_rule):
    model = case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X)
    replace_rule("Cos", rule=lambda op, node, dY: dY)
    assert judge(model).status == "passed"
    assert judge(model, order=2).status == "wrong"


def test_a_rule_that_crashes(replace_rule):
    replace_rule("Sin", rule=lambda op, node, dY: 1 / 0)
    verdict = judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X))
    assert verdict.status == "wrong"
    assert verdict.detail.startswith("It crashes:\nTraceback")
    assert "ZeroDivisionError" in verdict.detail


def test_an_operator_without_a_rule(replace_rule, monkeypatch):
    monkeypatch.delitem(registry._ENTRIES, ("", "Sin"))
    verdict = judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X))
    assert verdict.status == "refused"
    assert verdict.detail.startswith("NoGradientError: The gradient meets operators")


def test_a_gradient_that_no_engine_runs(replace_rule):
    replace_rule("Sin", rule=lambda op, node, dY: op.Reshape(dY, [7]))
    verdict = judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X))
    assert verdict.status == "wrong"
    assert verdict.detail.startswith("The model runs, its gradient does not: ")


def test_a_model_that_no_engine_runs():
    model = case(
        "(float[3] x) => (float[A] y) { s = Constant<value_ints=[7]>() y = Reshape(x, s) }", x=X
    )
    assert judge(model).status == "engine"


def test_a_model_that_only_numpy_runs():
    bfloat16 = ir.DataType.BFLOAT16.numpy()
    model = case("(bfloat16[3] x) => (bfloat16[3] y) { y = Sin(x) }", 22, x=X.astype(bfloat16))
    verdict = judge(model)
    assert verdict.status == "passed"
    assert verdict.detail.startswith("in NumPy: ONNX Runtime refuses")


def test_results_that_change(monkeypatch):
    import whileback

    vjp = whileback.vjp

    def changed(model, **options):
        other = model.clone()
        next(iter(other.graph)).op_type = "Cos"
        return vjp(other, **options)

    monkeypatch.setattr(whileback, "vjp", changed)
    verdict = judge(case("(float[3] x) => (float[3] y) { y = Sin(x) }", x=X))
    assert verdict.status == "wrong"
    assert verdict.detail.startswith("Output y was ")


def test_kinks_are_judged_beside_them(replace_rule):
    model = case("(float[3] x) => (float[3] y) { y = Abs(x) }", x=np.zeros(3, np.float32))
    assert judge(model).status == "passed"
    replace_rule("Abs", rule=lambda op, node, dY: dY)
    assert judge(model).status == "wrong"


def test_infinite_results_are_judged_beside_them(replace_rule):
    model = case("(float[3] x) => (float[3] y) { y = Exp(x) }", x=np.full(3, np.inf, np.float32))
    assert judge(model).status == "passed"
    replace_rule("Exp", rule=lambda op, node, dY: dY)
    assert judge(model).status == "wrong"


def test_scales_at_kinks_are_judged_where_they_say_the_same_sizes():
    text = """(float[1,1,2,4] x, float[4] s) => (float[1,1,1,2] y) {
      y = Resize<mode = "linear", antialias = 1>(x, , s)
    }"""
    feeds = {
        "x": np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4),
        "s": np.float32([1, 1, 0.6, 0.6]),
    }
    assert judge(case(text, **feeds)).status == "passed"


def test_a_mask_that_is_drawn_once_more(replace_rule):
    model = cases()["test_training_dropout_default"]
    assert judge(model).status == "passed"
    replace_rule("Dropout", rule=lambda op, node, dY: op.Dropout(dY, *node.inputs[1:]))
    verdict = judge(model)
    assert verdict.status == "wrong"
    assert "the gradient draws once more" in verdict.detail
