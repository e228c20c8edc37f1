"""Conformance case 18: a branch that reads an initializer of the parent, or one of its own."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.engines import compile
from whileback.gradient import vjp

OUTER = """<ir_version: %d, opset_import: ["" : %d]>
model (bool c, float[2] x) => (float[2] y) <float[2] W = {3, 4}> {
  [choice] y = If(c) <
    then_branch = yes () => (float[2] a) { a = Mul(x, W) },
    else_branch = no () => (float[2] b) { b = Neg(x) }>
}"""
INNER = """(bool c, float[2] x) => (float[2] y) {
  [choice] y = If(c) <
    then_branch = yes () => (float[2] a) <float[2] W = {3, 4}> { a = Mul(x, W) },
    else_branch = no () => (float[2] b) <float[2] W2 = {5, 6}> { b = Add(x, W2) }>
}"""


@pytest.mark.parametrize(("ir_version", "opset"), [(4, 10), (7, 13), (10, 21)])
def test_initializer_that_is_no_input(ir_version, opset):
    f = pullback(OUTER % (ir_version, opset), "y", "W x")
    outputs = f(c=True, x=[1, 2], y_grad=[1, 1])
    assert_numbers(outputs, y=[3, 8], x_grad=[3, 4], W_grad=[1, 2])
    outputs = f(c=False, x=[1, 2], y_grad=[1, 1])
    assert_numbers(outputs, y=[-1, -2], x_grad=[-1, -1], W_grad=[0, 0])
    outputs = f(c=True, x=[1, 2], y_grad=[0.5, -3])
    assert_numbers(outputs, x_grad=[1.5, -12], W_grad=[0.5, -6])


def test_initializer_becomes_an_input_with_a_default():
    f = pullback(OUTER % (10, 21), "y", "W x")
    assert f.defaults == {"W"}
    outputs = f(c=True, x=[1, 2], W=[5, 7], y_grad=[1, 1])
    assert_numbers(outputs, y=[5, 14], x_grad=[5, 7], W_grad=[1, 2])


def test_initializer_that_is_not_asked_for_stays_a_constant():
    model = vjp(parse(OUTER % (10, 21)), ["y"], ["x"])
    assert [value.name for value in model.graph.inputs] == ["c", "x", "y_grad"]
    assert_numbers(compile(model)(c=True, x=[1, 2], y_grad=[1, 10]), x_grad=[3, 40])


@pytest.mark.parametrize("c", [True, False])
def test_initializer_inside_the_branch(c):
    f = pullback(INNER, "y", "x")
    outputs = f(c=c, x=[1, 2], y_grad=[0.5, -3])
    right = ([3, 8], [1.5, -12]) if c else ([6, 8], [0.5, -3])
    assert_numbers(outputs, y=right[0], x_grad=right[1])
    assert_gradient(INNER, ["y"], ["x"], {"c": c})


@pytest.mark.parametrize("c", [True, False])
def test_initializer_inside_the_branch_by_its_address(c):
    names = ["choice/then_branch/W", "choice/else_branch/W2", "x"]
    f = compile(vjp(parse(INNER), ["y"], names), threads=1)
    outputs = f(c=c, x=[1, 2], y_grad=[0.5, -3])
    grads = [outputs[f"{name}_grad"] for name in names]
    right = ([0.5, -6], [0, 0], [1.5, -12]) if c else ([0, 0], [0.5, -3], [0.5, -3])
    np.testing.assert_allclose(grads, right)
    outputs = f({"choice/then_branch/W": [10, 20]}, c=True, x=[1, 2], y_grad=[1, 1])
    assert_numbers(outputs, y=[10, 40], x_grad=[10, 20])


@pytest.mark.parametrize("n", [0, 2])
def test_initializers_at_every_depth(n):
    model = """(int64 n, bool c, float[2] x) => (float[2] y) <float[2] U = {0.5, 2}> {
      [loop] y = Loop(n, , x) <body = body (int64 i, bool p, float[2] v)
          => (bool go, float[2] u) <float[2] V = {1.5, -0.5}> {
        go = Identity(p)
        a = Mul(v, V)
        [inner] u = If(c) <
          then_branch = yes () => (float[2] b) <float[2] W = {0.25, 3}> {
            b1 = Mul(a, W)
            b2 = Mul(b1, U)
            b = Sin(b2)
          },
          else_branch = no () => (float[2] d) { d = Add(a, U) }>
      }>
    }"""
    for c in (True, False):
        assert_gradient(model, ["y"], ["x", "U"], {"n": n, "c": c}, second_order=c)
    names = ["loop/body/V", "loop/body/inner/then_branch/W"]
    lifted = vjp(parse(model), ["y"], names)
    onnx.checker.check_model(ir.to_proto(lifted), full_check=True)
    by_hand = model.replace(" <float[2] V = {1.5, -0.5}> {", " {")
    by_hand = by_hand.replace(" <float[2] W = {0.25, 3}> {", " {")
    by_hand = by_hand.replace(
        "U = {0.5, 2}", "U = {0.5, 2}, float[2] V = {1.5, -0.5}, float[2] W = {0.25, 3}"
    )
    at = {"n": n, "c": True, "x": [0.5, 1.0]}
    assert_gradient(by_hand, ["y"], ["V", "W"], at)
    outputs = compile(lifted, threads=1)(at, y_grad=[1, -2])
    right = pullback(by_hand, "y", "V W")(at, y_grad=[1, -2])
    for name, other in zip(names, ["V", "W"], strict=True):
        np.testing.assert_allclose(outputs[f"{name}_grad"], right[f"{other}_grad"], rtol=1e-6)
