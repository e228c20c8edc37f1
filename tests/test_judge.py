"""The judge is fed gradients that are wrong in every way that it claims to notice."""

import dataclasses

import numpy as np
import pytest
from onnx.shape_inference import InferenceError
from tests.judge import assert_gradient, assert_gradient_model, parse

from whileback.errors import EngineError
from whileback.gradient import registry

MODEL = "(float[B,2] x, int64 n) => (float[B,2] y) { e = Exp(x) y = Mul(e, x) }"
VJP = """(float[B,2] x, int64 n, float[B,2] y_grad) => (float[B,2] y, float[B,2] x_grad) {
  e = Exp(x)
  y = Mul(e, x)
  a = Mul(y_grad, e)
  b = Mul(y_grad, y)
  x_grad = Add(a, b)
}"""


def judge(text, model=MODEL, **options):
    return assert_gradient_model(parse(model), parse(text), ["y"], ["x"], {}, **options)


def test_the_right_gradient_passes_and_is_returned():
    arguments, gradients = judge(VJP)
    x, dy = arguments["x"], arguments["y_grad"]
    np.testing.assert_allclose(gradients["x"], dy * np.exp(x) * (1 + x), rtol=1e-5)
    assert len(np.unique(np.abs(dy))) > 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "x_grad = Add(a, b)",
            "c = Add(a, b) k = Constant<value = float {1.0001}>() x_grad = Mul(c, k)",
        ),
        ("x_grad = Add(a, b)", "x_grad = Identity(a)"),
        ("x_grad = Add(a, b)", "x_grad = Sub(a, b)"),
        ("x_grad = Add(a, b)", "c = Add(a, b) k = Cast<to = 11>(c) x_grad = Identity(k)"),
        ("x_grad = Add(a, b)", "c = Add(a, b) x_grad = Transpose(c)"),
        ("(float[B,2] y, float[B,2] x_grad)", "(float[B,2] x_grad, float[B,2] y)"),
        ("(float[B,2] y, float[B,2] x_grad)", "(float[B,2] x_grad)"),
        ("y = Mul(e, x)", "y = Mul(x, x)"),
        ("x_grad", "x_cotangent"),
        ("y_grad", "y_cotangent"),
    ],
)
def test_what_is_wrong_fails(old, new):
    assert old in VJP
    with pytest.raises((AssertionError, EngineError, InferenceError)):
        judge(VJP.replace(old, new))


def test_a_float32_overflow_is_noticed():
    model = "(float[2] x) => (float[2] y) { y = Tanh(x) }"
    vjp = """(float[2] x, float[2] y_grad) => (float[2] y, float[2] x_grad) {
      y = Tanh(x)
      e = Exp(x)
      m = Neg(x)
      f = Exp(m)
      s = Add(e, f)
      q = Mul(s, s)
      c = Constant<value = float {4}>()
      g = Div(c, q)
      t = Mul(q, g)
      r = Div(t, q)
      x_grad = Mul(r, y_grad)
    }"""
    right = {"x": np.float32([1, -0.5])}
    assert_gradient_model(parse(model), parse(vjp), ["y"], ["x"], right)
    with pytest.raises(AssertionError):
        assert_gradient_model(parse(model), parse(vjp), ["y"], ["x"], {"x": np.float32([50, -0.5])})


def test_kinks_are_refused_unless_expected():
    model = "(float[2] x) => (float[2] y) { y = Relu(x) }"
    vjp = """(float[2] x, float[2] y_grad) => (float[2] y, float[2] x_grad) {
      y = Relu(x)
      s = Sign(y)
      x_grad = Mul(s, y_grad)
    }"""
    x = {"x": np.float32([0, 1])}
    assert_gradient_model(parse(model), parse(vjp), ["y"], ["x"], x, kinks=True)
    with pytest.raises(AssertionError, match="kink"):
        assert_gradient_model(parse(model), parse(vjp), ["y"], ["x"], x)


TANH = "(float[B,2] x, float[2,3] w) => (float[B,3] y) { a = MatMul(x, w) y = Tanh(a) }"
SQUARE = "(float[3] x) => (float[3] y) { y = Mul(x, x) }"
LOOP = """(float[3] x, float[3] w, int64 n) => (float[3] y, float[T,3] s) {
  y, s = Loop(n, "", x) <body = b (int64 i, bool c, float[3] v)
      => (bool d, float[3] u, float[3] r) {
    a = Mul(v, w)
    u = Tanh(a)
    r = Mul(u, a)
    d = Identity(c)
  }>
}"""


@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize(
    ("text", "of", "wrt"),
    [(TANH, ["y"], ["x", "w"]), (TANH, ["y", "a"], ["w", "a"]), (LOOP, ["s", "y"], ["w", "x"])],
)
def test_right_rules_pass(text, of, wrt, second_order):
    assert list(assert_gradient(text, of, wrt, second_order=second_order)) == wrt


def replace_rule(monkeypatch, op_type, change):
    """Let a rule's results go through a function of the builder and the results."""
    key = ("", op_type)
    entry = registry._ENTRIES[key]

    def changed(op, node, *cotangents):
        results = entry.rule(op, node, *cotangents)
        return change(op, results if isinstance(results, (tuple, list)) else (results,))

    monkeypatch.setitem(registry._ENTRIES, key, dataclasses.replace(entry, rule=changed))


def scaled(factor):
    return lambda op, results: [each and op.Mul(each, factor) for each in results]


@pytest.mark.parametrize(
    ("text", "wrt", "op_type", "change"),
    [
        (TANH, ["w"], "Tanh", scaled(1.001)),
        (TANH, ["w"], "Tanh", scaled(1.00001)),
        (TANH, ["x"], "MatMul", scaled(-1.0)),
        (TANH, ["x"], "MatMul", lambda op, results: [op.Mul(results[0], 0.0), results[1]]),
        (SQUARE, ["x"], "Mul", lambda op, results: [results[0], None]),
        (LOOP, ["w"], "Tanh", scaled(1.001)),
        (LOOP, ["x"], "Mul", lambda op, results: [op.Mul(results[0], 2.0), results[1]]),
    ],
)
def test_wrong_rules_fail(monkeypatch, text, wrt, op_type, change):
    assert_gradient(text, ["y"], wrt)
    replace_rule(monkeypatch, op_type, change)
    with pytest.raises(AssertionError, match="WRONG"):
        assert_gradient(text, ["y"], wrt)


def test_a_rule_that_is_wrong_in_second_order_only_fails(monkeypatch):
    def frozen(op, node, dy):
        """Right, but its own gradient goes through a rounding that no one notices before."""
        y = op.Tanh(node.inputs[0])
        slope = op.Sub(1.0, op.Mul(y, y))
        whole = op.Floor(op.Mul(slope, 1e15))
        return op.Mul(dy, op.Mul(whole, 1e-15))

    entry = dataclasses.replace(registry._ENTRIES["", "Tanh"], rule=frozen)
    monkeypatch.setitem(registry._ENTRIES, ("", "Tanh"), entry)
    model = "(float[3] x) => (float[3] y) { y = Tanh(x) }"
    assert_gradient(model, ["y"], ["x"])
    with pytest.raises(AssertionError, match="WRONG"):
        assert_gradient(model, ["y"], ["x"], second_order=True)
