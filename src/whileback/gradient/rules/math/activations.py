"""Gradients of elementwise activation functions."""

from __future__ import annotations

import math

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import kept, over, times
from whileback.gradient.rules.inputs import required

Pair = tuple[ir.Value | None, ir.Value | None]


@rule("Tanh")
def tanh(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = tanh(X), so dX = dY·(1 - Y²)."""
    Y = node.outputs[0]
    return op.Mul(dY, op.Sub(1.0, op.Mul(Y, Y)))


@rule("Sigmoid")
def sigmoid(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = 1/(1 + exp(-X)), so dX = dY·Y·(1 - Y)."""
    Y = node.outputs[0]
    return op.Mul(dY, op.Mul(Y, op.Sub(1.0, Y)))


@rule("Softplus")
def softplus(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = log(1 + exp(X)), so dX = dY·sigmoid(X)."""
    return op.Mul(dY, op.Sigmoid(required(node)))


@rule("Softsign")
def softsign(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X/(1 + |X|), so dX = dY/(1 + |X|)²."""
    size = op.Add(op.Abs(op.widened(required(node))), 1.0)
    return over(op, node, dY, op.Mul(size, size))


@rule("Relu")
def relu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = max(X, 0), so dX = dY where Y > 0; at 0 it is 0."""
    return kept(op, op.Greater(node.outputs[0], 0.0), dY)


@rule("LeakyRelu")
def leaky_relu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X where X > 0, else α·X, so dX = dY or α·dY; at 0 it is α·dY."""
    alpha = node.attributes.get_float("alpha", 0.01)
    return op.Mul(dY, _where_positive(op, required(node), 1.0, alpha))


@rule("PRelu")
def prelu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Pair:
    """Y = X where X > 0, else S·X, so dX = dY or S·dY, and dS = X·dY or nothing; at 0 as below."""
    X, S = required(node, 0), required(node, 1)
    dX = op.Mul(dY, _where_positive(op, X, 1.0, S)) if X in op.active else None
    if S not in op.active:
        return dX, None
    return dX, op.unbroadcast(op.Mul(dY, op.Min(X, 0.0)), S)


@rule("ThresholdedRelu")
def thresholded_relu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X where X > α, else 0, so dX = dY where X > α."""
    threshold = node.attributes.get_float("alpha", 1.0)
    return kept(op, op.Greater(required(node), threshold), dY)


@rule("Elu")
def elu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X where X > 0, else α·(exp(X) - 1), so dX = dY or dY·(Y + α); at 0 it is α·dY."""
    alpha = node.attributes.get_float("alpha", 1.0)
    return _exponential(op, node, dY, 1.0, 1.0, alpha)


@rule("Selu")
def selu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = γ·X where X > 0, else γ·α·(exp(X) - 1), so dX = γ·dY or dY·(Y + γ·α), as at 0."""
    alpha = node.attributes.get_float("alpha", 1.67326319217681884765625)
    gamma = node.attributes.get_float("gamma", 1.05070102214813232421875)
    return _exponential(op, node, dY, gamma, 1.0, gamma * alpha)


@rule("Celu")
def celu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X where X > 0, else α·(exp(X/α) - 1), so dX = dY or dY·(Y/α + 1)."""
    alpha = node.attributes.get_float("alpha", 1.0)
    return _exponential(op, node, dY, 1.0, 1 / alpha, 1.0)


@rule("Gelu")
def gelu(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X·Φ(X), so dX = dY·(Φ(X) + X·Φ'(X)), Φ the normal distribution or its tanh form."""
    X = op.widened(required(node))
    tanh_form = node.attributes.get_string("approximate", "none") == "tanh"
    doubled, slope = (_tanh_form if tanh_form else _normal)(op, X)
    return times(op, node, dY, op.Mul(op.Add(doubled, op.Mul(X, slope)), 0.5))


def _normal(op: GradientBuilder, X: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return 2·Φ(X) = 1 + erf(X/√2) and its slope √(2/π)·exp(-X²/2)."""
    bell = op.Exp(op.Mul(op.Mul(X, X), -0.5))
    erf = op.Erf(op.Mul(X, math.sqrt(0.5)))
    return op.Add(erf, 1.0), op.Mul(bell, math.sqrt(2 / math.pi))


def _tanh_form(op: GradientBuilder, X: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return 1 + tanh(u) with u = √(2/π)·(X + 0.044715·X³), and its slope (1 - tanh²)·u'."""
    scale, cubic = math.sqrt(2 / math.pi), 0.044715 * math.sqrt(2 / math.pi)
    squared = op.Mul(X, X)
    tanh = op.Tanh(op.Mul(X, op.Add(op.Mul(squared, cubic), scale)))
    inner = op.Add(op.Mul(squared, 3 * cubic), scale)
    return op.Add(tanh, 1.0), op.Mul(op.Sub(1.0, op.Mul(tanh, tanh)), inner)


@rule("HardSigmoid")
def hard_sigmoid(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = α·X + β, kept within [0, 1], so dX = α·dY where 0 < Y < 1."""
    Y = node.outputs[0]
    alpha = node.attributes.get_float("alpha", 0.2)
    inside = op.And(op.Greater(Y, 0.0), op.Less(Y, 1.0))
    return op.Mul(kept(op, inside, dY), alpha)


@rule("HardSwish")
def hard_swish(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X·min(max(X/6 + 1/2, 0), 1), so dX = dY·(X/3 + 1/2); 0 up to -3, dY from 3 on."""
    X = required(node)
    slope = op.Add(op.Mul(X, 1 / 3), 0.5)
    inside = op.Less(op.Abs(X), 3.0)
    outside = _where_positive(op, X, 1.0, 0.0)
    return op.Mul(dY, op.Where(inside, slope, outside))


@rule("Mish")
def mish(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X·t, t = tanh(softplus(X)), so dX = dY·(t + X·(1 - t²)·sigmoid(X))."""
    X = required(node)
    t = op.Tanh(op.Softplus(X))
    slope = op.Mul(op.Sub(1.0, op.Mul(t, t)), op.Sigmoid(X))
    return times(op, node, dY, op.Add(t, op.Mul(X, slope)))


@rule("Swish")
def swish(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X·s, s = sigmoid(α·X), so dX = dY·(s + α·Y·(1 - s))."""
    alpha = node.attributes.get_float("alpha", 1.0)
    X, Y = required(node), node.outputs[0]
    s = op.Sigmoid(X if alpha == 1 else op.Mul(X, alpha))
    rest = op.Mul(Y if alpha == 1 else op.Mul(Y, alpha), op.Sub(1.0, s))
    return times(op, node, dY, op.Add(s, rest))


def _exponential(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value,
    above: float,
    factor: float,
    offset: float,
) -> ir.Value:
    """Return dY times `above` where X is positive, else times factor·Y + offset.

    Y has the sign of X as long as the curve rises everywhere, so that X need not be kept.
    """
    Y = node.outputs[0]
    rising = above > 0 and offset >= 0
    below = op.Add(Y if factor == 1 else op.Mul(Y, factor), offset)
    return op.Mul(dY, _where_positive(op, Y if rising else required(node), above, below))


def _where_positive(
    op: GradientBuilder, value: ir.Value, then: ir.Value | float, other: ir.Value | float
) -> ir.Value:
    """Return one where the value is positive, and the other where it is not."""
    then = op.constant(then, value.dtype) if isinstance(then, float) else then
    return op.Where(op.Greater(value, 0.0), then, other)
