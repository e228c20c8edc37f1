"""The judge is fed gradients that are wrong in every way that it claims to notice."""

import numpy as np
import pytest
from onnx.shape_inference import InferenceError
from tests.judge import assert_gradient_model, parse

from whileback.errors import EngineError

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
