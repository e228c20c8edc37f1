"""LSTMs that steps of training run as loops, which keep what the gradient reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.training.models import with_weights

from whileback.engines import compile
from whileback.gradient import gradient, names
from whileback.graph.scopes import walk
from whileback.training import gradients, sgd, step

BATCH, STEPS = 256, 3
LSTM = """(float[{x}] x, float[{sides},{rows},2] W, float[{sides},{rows},{hidden}] R,
           float[{sides},{biases}] B, float[{first}] first, float[{sides},{peepholes}] P)
    => ({result}) {{
    count = Constant<value_int = 256>()
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    four = Constant<value_int = 4>()
    numbers = Range(zero, count, one)
    counts = Mod(numbers, four)
    lengths = Cast<to = 6>(counts)
    y, h, c = LSTM<hidden_size = {hidden}{attributes}>(x, W, R, B{inputs})
    a = ReduceSumSquare<keepdims = 0>(y)
    b = ReduceSum<keepdims = 0>(h)
    d = ReduceSumSquare<keepdims = 0>(c)
    s = Sum(a, b, d)
    axes = Constant<value_ints = [0]>()
    z = Unsqueeze(s, axes)
{loss}}}"""
LOSS = """    label = Constant<value_floats = [1.0]>()
    e = Sub(z, label)
    q = Mul(e, e)
    loss = ReduceMean<keepdims = 0>(q)
"""


def model(
    x: str = "T,256,2",
    attributes: str = "",
    inputs: str = "",
    hidden: int = 16,
    has_loss: bool = False,
) -> ir.Model:
    """Return a model that is an LSTM and a sum over its outputs, with or without a loss of it."""
    sides = 2 if "bidirectional" in attributes else 1
    first = (BATCH, sides, hidden) if "layout" in attributes else (sides, BATCH, hidden)
    text = LSTM.format(
        x=x,
        sides=sides,
        rows=4 * hidden,
        biases=8 * hidden,
        peepholes=3 * hidden,
        first=",".join(map(str, first)),
        hidden=hidden,
        attributes=attributes,
        inputs=inputs,
        result="float loss" if has_loss else "float[1] z",
        loss=LOSS if has_loss else "",
    )
    return with_weights(text)


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "known steps": {"x": "3,N,2", "hidden": 64},
    "symbols": {"x": "T,N,2", "hidden": 64, "inputs": ', "", first, first'},
    "reverse": {"attributes": ', direction = "reverse", clip = 0.9'},
    "both": {"attributes": ', direction = "bidirectional"', "inputs": ", lengths, first, first, P"},
}


def has_lstm(made: ir.Model) -> bool:
    return any(node.op_type == "LSTM" for node in walk(made.graph))


def assert_same(run: ir.Model, x: np.ndarray, form: dict[str, Any], seen: np.ndarray) -> None:
    """Judge the gradients of a step by those made for the operator, of a form that has it."""
    made = gradients(run, "mse")
    wrt = list(names(made))
    whole = gradient(model(**form, has_loss=True), "loss", wrt)
    assert has_lstm(whole) and not has_lstm(made)
    got = compile(made)({"x": x, "label": np.ones(1, "f")})
    expected = compile(whole)({"x": seen})
    np.testing.assert_allclose(got["loss"], expected["loss"], rtol=1e-5)
    for name in wrt:
        found, true = got[names(made)[name]], expected[names(whole)[name]]
        assert abs(true).max() > 0
        np.testing.assert_allclose(found, true, rtol=1e-4, atol=1e-5 * abs(true).max())


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_the_operator(form: str) -> None:
    x = np.random.default_rng(1).normal(size=(STEPS, BATCH, 2)).astype("f")
    assert_same(model(**FORMS[form]), x, FORMS[form], x)


def test_batch_first() -> None:
    # ONNX Runtime refuses the operator itself in this layout.
    x = np.random.default_rng(1).normal(size=(STEPS, BATCH, 2)).astype("f")
    run = model("256,T,2", ", layout = 1, input_forget = 1")
    assert_same(run, x.transpose(1, 0, 2), {"attributes": ", input_forget = 1"}, x)


def test_no_steps() -> None:
    made = gradients(model(), "mse")
    out = compile(made)({"x": np.zeros((0, BATCH, 2), "f"), "label": np.ones(1, "f")})
    assert out["loss"] == 1
    assert all(not out[name].any() for name in names(made).values())


@pytest.mark.parametrize(
    "kept",
    [
        {"hidden": 15},
        {"x": "T,N,2", "hidden": 63},
        {"attributes": ', activations = ["Sigmoid", "Softsign", "Tanh"]'},
    ],
)
def test_what_stays(kept: dict[str, Any]) -> None:
    assert has_lstm(gradients(model(**kept), "mse"))


def test_products_stay_wide_in_mixed_precision() -> None:
    made = step(model(), "mse", sgd(), precision="float16")
    assert not has_lstm(made)
    products = [node for node in walk(made.graph) if node.op_type in ("Gemm", "MatMul")]
    assert {node.outputs[0].dtype for node in products} == {ir.DataType.FLOAT}
