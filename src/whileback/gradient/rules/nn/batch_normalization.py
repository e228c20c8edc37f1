"""Gradient of batch normalization, at inference and in training."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.nn.standard import (
    epsilon_of,
    per_channel,
    ranked,
    standardize,
    sum_per_channel,
    widened,
)
from whileback.graph.shapes import rank

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
    X, dY = required(node), _data(op, dY)
    scale, mean, variance = (op.cast(required(node, index), dY) for index in (1, 3, 4))
    r = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon_of(node))))
    slope = op.Mul(scale, r)
    dX = op.reshape(op.Mul(dY, per_channel(op, slope, dY)), X)
    centred = op.Sub(_data(op, X), per_channel(op, mean, dY))
    dScale = op.Mul(sum_per_channel(op, op.Mul(dY, centred)), r)
    dB = sum_per_channel(op, dY)
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
    """See `Standard`; each running value moves by 1 - momentum of the way to that of X."""
    X, momentum = required(node), node.attributes.get_float("momentum", 0.9)
    data = _data(op, X)
    axes = [axis for axis in range(rank(data) or 0) if axis != 1]
    standard = standardize(op, data, axes, epsilon_of(node))
    dX = dScale = dB = dmean = dvariance = None
    if dMean is not None:
        dMean = widened(op, dMean)
        dmean = op.Mul(dMean, momentum)
        moved = per_channel(op, op.Mul(dMean, 1 - momentum), data)
        dX = standard.mean_gradient(op, moved)
    if dVariance is not None:
        dVariance = widened(op, dVariance)
        dvariance = op.Mul(dVariance, momentum)
        moved = per_channel(op, op.Mul(dVariance, 2 * (1 - momentum)), data)
        dX = op.add(dX, standard.mean_gradient(op, op.Mul(moved, standard.centred)))
    if dY is not None:
        dY = _data(op, dY)
        dX = op.add(dX, standard.gradient(op, op.Mul(dY, per_channel(op, required(node, 1), dY))))
        dScale = sum_per_channel(op, op.Mul(dY, standard.Z))
        dB = sum_per_channel(op, dY)
    dX = None if dX is None else op.reshape(dX, X)
    return _as_inputs(op, node, [dX, dScale, dB, dmean, dvariance])


def _data(op: GradientBuilder, value: ir.Value) -> ir.Value:
    return ranked(op, widened(op, value))


def _as_inputs(
    op: GradientBuilder, node: ir.Node, gradients: Sequence[ir.Value | None]
) -> Gradients:
    """Give each gradient the type of its input."""
    return tuple(
        None if gradient is None else op.cast(gradient, required(node, index))
        for index, gradient in enumerate(gradients)
    )
