"""Losses of the caller's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxscript
import pytest
from onnxscript import FLOAT, INT64
from onnxscript import opset21 as op
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.training import custom, interface, mse, step

MODEL = """(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 0, 0, 1}, float[2] b = {0, 0}> {
    a = MatMul(x, w)
    y = Add(a, b)
}"""
QUARTIC = """(float[N,2] p, float[N,2] t) => (float l) <float c = {0.5}> {
    d = Sub(p, t)
    s = Mul(d, d)
    q = Mul(s, s)
    h = Mul(q, c)
    l = ReduceSum<keepdims = 0>(h)
}"""
X = np.array([[1, 2], [3, 4], [0, -1]], "f")
T = np.array([[0, 1], [1, 1], [2, 2]], "f")


@pytest.mark.parametrize("opset", [13, 18, 21, 23])
@pytest.mark.parametrize("other", [13, 21, 23])
def test_of_any_opsets(opset: int, other: int) -> None:
    f = compile(step(parse(MODEL, opset), custom(parse(QUARTIC, other)), "sgd"))
    out = f(x=X, label=T, learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], 0.5 * ((X - T) ** 4).sum())
    np.testing.assert_allclose(out["b_next"], -2 * ((X - T) ** 3).sum(0))


def test_as_a_proto() -> None:
    loss = custom(ir.to_proto(parse(QUARTIC)))
    f = compile(step(parse(MODEL), loss, "sgd"))
    np.testing.assert_allclose(f(x=X, label=T, learning_rate=1.0)["loss"], 98)


@onnxscript.script()
def typed(p: FLOAT[3, 2], t: INT64[3, 2]):
    d = p - op.CastLike(t, p)
    return op.ReduceSumSquare(d, keepdims=0)


@onnxscript.script()
def untyped(p, t):
    d = p - t
    return op.ReduceSumSquare(d, keepdims=0)


@pytest.mark.parametrize(
    ("make", "label"),
    [
        (lambda: typed, np.int64),
        (lambda: typed.to_model_proto(), np.int64),
        (lambda: untyped, np.float32),
        (lambda: untyped.to_function_proto(), np.float32),
        (lambda: ir.from_proto(untyped.to_function_proto()), np.float32),
    ],
)
def test_functions(make: Callable[[], Any], label: type) -> None:
    loss = custom(make())
    f = compile(step(parse(MODEL), loss, "sgd"))
    out = f(x=X, label=T.astype(label), learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], ((X - T) ** 2).sum())
    np.testing.assert_allclose(out["b_next"], -2 * (X - T).sum(0))


def test_with_a_loop_and_without_a_label() -> None:
    """The sum of the powers of y up to the third."""
    loss = custom(
        parse("""(float[N,2] p) => (float[N,2] total) {
        three = Constant<value_int = 3>()
        r = Div(p, p)
        z = Sub(p, p)
        power, total = Loop(three, "", r, z) <
            body = trip (int64 i, bool c, float[N,2] v, float[N,2] s)
                => (bool d, float[N,2] u, float[N,2] n) {
                d = Identity(c)
                u = Mul(v, p)
                n = Add(s, u)
            }>
    }""")
    )
    f = compile(step(parse(MODEL), loss, "sgd"))
    out = f(x=X[:2], learning_rate=1.0)
    x = X[:2]
    np.testing.assert_allclose(out["loss"], (x + x**2 + x**3).sum(), rtol=1e-6)
    np.testing.assert_allclose(out["b_next"], -(1 + 2 * x + 3 * x**2).sum(0), rtol=1e-6)
    assert set(f.inputs) - f.defaults == {"x", "learning_rate"}


def test_beside_others_and_twice() -> None:
    own = custom(parse(QUARTIC), weight=2)
    other = custom(parse(QUARTIC.replace("0.5", "1.5")))
    one = step(parse(MODEL), [own, mse(), other, own], "sgd")
    out = compile(one)(x=X, label=T, learning_rate=0.0)
    far = X - T
    parts = [(far**4).sum(), (far**2).mean(), 1.5 * (far**4).sum(), (far**4).sum()]
    np.testing.assert_allclose([out[f"loss_{index}"] for index in range(4)], parts, rtol=1e-6)
    assert interface(one).losses["loss_0"] == "model of 'y' as it is"


def test_the_type_of_the_label() -> None:
    loss = custom(
        parse("""(float[N,2] p, int64[N] k) => (float l) {
        axis = Constant<value_ints = [1]>()
        i = Unsqueeze(k, axis)
        e = GatherElements<axis = 1>(p, i)
        n = Neg(e)
        l = ReduceMean<keepdims = 0>(n)
    }""")
    )
    f = compile(step(parse(MODEL), loss, "sgd"))
    assert f.inputs["label"].text == "INT64[N]"
    out = f(x=X, label=[0, 1, 1], learning_rate=3.0)
    np.testing.assert_allclose(out["loss"], -4 / 3)
    np.testing.assert_allclose(out["b_next"], [1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: custom(parse("(float a, float b, float c) => (float l) { l = Sum(a, b, c) }")),
            "Model 'model' has 3 inputs and 1 outputs: a loss has a prediction and a label, or the "
            "prediction alone, and one output. Change the model.",
        ),
        (
            lambda: custom("loss.onnx"),  # type: ignore[arg-type]
            "custom() got 'str'. Give a model or a function of ONNX, or one of onnxscript.",
        ),
        (
            lambda: custom(onnx.FunctionProto(name="f", attribute=["alpha"])),
            "Function 'f' has attributes without values: 'alpha'. Give them defaults.",
        ),
        (
            lambda: custom(parse("(int64 a) => (int64 l) { l = Neg(a) }")),
            "'a' of model 'model' is INT64[]: a prediction and a loss are floats. Change the "
            "model.",
        ),
        (
            lambda: custom(parse("(float a) => (bool l) { l = Greater(a, a) }")),
            "'l' of model 'model' is BOOL[]: a prediction and a loss are floats. Change the model.",
        ),
        (
            lambda: custom(parse("(float a) => (float l) { l = Round(a) }")),
            "'l' of model 'model' does not depend on 'a' in a way that has a gradient. Change the "
            "model.",
        ),
        (
            lambda: step(
                parse(MODEL), custom(parse("(float a, int64 k) => (float a2) { a2 = Neg(a) }"),
                label="x"), "sgd",
            ),
            "loss 'model' compares with 'x', which is FLOAT[N,2], but needs INT64[]. Name another "
            "one with label=.",
        ),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message
