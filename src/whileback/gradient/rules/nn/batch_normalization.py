"""Gradient of batch normalization, at inference and in training."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.nn.standard import (
    epsilon_of,
    other_axes,
    per_channel,
    ranked,
    standardize,
    sum_per_channel,
)

Gradients = tuple[ir.Value | None, ...]


@rule("BatchNormalization")
def batch_normalization(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value | None,
    dMean: ir.Value | None = None,
    dVariance: ir.Value | None = None,
) -> Gradients:
    """Y = Z·Scale + B for each channel, where Z = (X - mean)·r and r = 1/√(variance + ε).

    At inference mean and variance are inputs; in training they are those of X, and outputs tell
    how they change the running ones.
    """
    if node.attributes.get_int("training_mode", 0):
        return _training(op, node, dY, dMean, dVariance)
    return () if dY is None else _inference(op, node, dY)


def _inference(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Gradients:
    """dX = dY·Scale·r, dScale = Σ dY·Z, dmean = -Σ dX, dvariance = -Σ dX·Z·r/2."""
    X = required(node)
    data, dY = ranked(op, op.widened(X), op.widened(dY))
    scale, mean, variance = (op.cast(required(node, index), dY) for index in (1, 3, 4))
    r = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon_of(node))))
    slope = op.Mul(scale, r)
    dX = op.reshape(op.Mul(dY, per_channel(op, slope, dY)), X)
    centred = op.Sub(data, per_channel(op, mean, data))
    dScale = op.Mul(sum_per_channel(op, op.Mul(dY, centred), dY), r)
    dB = sum_per_channel(op, dY, dY)
    dmean = op.Neg(op.Mul(dB, slope))
    dvariance = op.Mul(op.Mul(dScale, slope), op.Mul(r, -0.5))
    return _as_inputs(op, node, [dX, dScale, dB, dmean, dvariance])


def _training(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value | None,
    dMean: ir.Value | None,
    dVariance: ir.Value | None,
) -> Gradients:
    """See `Standard` for dX; dScale = Σ dY·Z, and the running values keep a share `momentum`."""
    X, momentum = required(node), node.attributes.get_float("momentum", 0.9)
    dX = dScale = dB = None
    if dY is not None:
        data, dY = ranked(op, op.widened(X), op.widened(dY))
        standard = standardize(op, data, other_axes(data), epsilon_of(node))
        dZ = op.Mul(dY, per_channel(op, required(node, 1), dY))
        dX = op.reshape(standard.gradient(op, dZ), X)
        dScale = sum_per_channel(op, op.Mul(dY, standard.Z), dY)
        dB = sum_per_channel(op, dY, dY)
    running = [None if value is None else op.widened(value) for value in (dMean, dVariance)]
    dX = op.add(dX, _from_running(op, node, *running))
    kept = (None if value is None else op.Mul(value, momentum) for value in running)
    return _as_inputs(op, node, [dX, dScale, dB, *kept])


def _from_running(
    op: GradientBuilder, node: ir.Node, dMean: ir.Value | None, dVariance: ir.Value | None
) -> ir.Value | None:
    """Return what X gets from running values, of which the batch has a share 1 - momentum.

    Its mean is ΣX/n, its variance Σ(X - mean)²/n.
    """
    if dMean is None and dVariance is None:
        return None
    share = 1 - node.attributes.get_float("momentum", 0.9)
    (data,) = ranked(op, op.widened(required(node)))
    standard = standardize(op, data, other_axes(data), epsilon_of(node))
    dM = None if dMean is None else per_channel(op, op.Mul(dMean, share), data)
    if dVariance is not None:
        twice = per_channel(op, op.Mul(dVariance, 2 * share), data)
        dM = op.add(dM, op.Mul(twice, standard.centred))
    assert dM is not None
    return op.reshape(standard.mean_gradient(op, dM), required(node))


def _as_inputs(
    op: GradientBuilder, node: ir.Node, gradients: Sequence[ir.Value | None]
) -> Gradients:
    """Give each gradient the type of its input."""
    return tuple(
        None if gradient is None else op.cast(gradient, required(node, index))
        for index, gradient in enumerate(gradients)
    )
