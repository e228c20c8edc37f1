"""Gradients of normalizations.

They read the data alone and compute mean and scale again from it. Data of 16 bits is widened to
FLOAT for that, as ONNX has it in these operators themselves.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.nn.standard import (
    Standard,
    epsilon_of,
    other_axes,
    per_channel,
    ranked,
    standardize,
    sum_per_channel,
)
from whileback.graph.builder import Operand
from whileback.graph.shapes import rank

Pair = tuple[ir.Value | None, ir.Value | None]
Triple = tuple[ir.Value | None, ir.Value | None, ir.Value | None]


@rule("LayerNormalization")
def layer_normalization(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value | None,
    dMean: ir.Value | None = None,
    dR: ir.Value | None = None,
) -> Triple:
    """Y = Z·Scale + B, where Z = (X - mean)·r over the last axes; mean and r are outputs too.

    So dX is what `Standard` says for dZ = dY·Scale, dScale = Σ dY·Z, dB = Σ dY.
    """
    X, scale, B = required(node), required(node, 1), optional(node, 2)
    standard = standardize(op, op.widened(X), _last_axes(op, node), epsilon_of(node))
    dX = dScale = dB = None
    if dMean is not None:
        dX = standard.mean_gradient(op, op.cast(dMean, standard.Z))
    if dR is not None:
        dX = op.add(dX, standard.r_gradient(op, op.cast(dR, standard.Z)))
    if dY is not None:
        wide = op.widened(dY)
        dX = op.add(dX, standard.gradient(op, op.Mul(wide, op.widened(scale))))
        dScale = op.cast(op.unbroadcast(op.Mul(wide, standard.Z), scale), scale)
        dB = None if B is None else op.cast(op.unbroadcast(wide, B), B)
    return None if dX is None else op.cast(dX, X), dScale, dB


@rule("RMSNormalization")
def rms_normalization(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Pair:
    """Y = Z·Scale, where Z = X·r and r = 1/√(mean X² + ε): dX = r·(dZ - Z·mean(dZ·Z))."""
    X, scale, axes = required(node), required(node, 1), _last_axes(op, node)
    wide, dY = op.widened(X), op.widened(dY)
    square = op.ReduceMean(op.Mul(wide, wide), axes)
    r = op.Reciprocal(op.Sqrt(op.Add(square, epsilon_of(node))))
    Z, dZ = op.Mul(wide, r), op.Mul(dY, op.widened(scale))
    dX = op.Mul(r, op.Sub(dZ, op.Mul(Z, op.ReduceMean(op.Mul(dZ, Z), axes))))
    return op.cast(dX, X), op.cast(op.unbroadcast(op.Mul(dY, Z), scale), scale)


def _last_axes(op: GradientBuilder, node: ir.Node) -> Operand:
    """Return the axes from `axis` to the last one."""
    first, count = node.attributes.get_int("axis", -1), rank(required(node))
    if first < 0:
        return list(range(first, 0))
    if count is not None:
        return list(range(first, count))
    return op.Range(first, op.Size(op.Shape(required(node))), 1)


@rule("GroupNormalization", "InstanceNormalization")
def group_normalization(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Triple:
    """Y = Z·Scale + B, where Z is X made standard over groups of channels, or over each.

    So dX is what `Standard` says for dZ = dY·Scale, dScale = Σ dY·Z, dB = Σ dY.
    """
    X, scale, B = required(node), required(node, 1), required(node, 2)
    data, dY = ranked(op, op.widened(X), op.widened(dY))
    grouped = _grouped(op, node, data)
    standard = standardize(op, grouped, other_axes(grouped)[1:], epsilon_of(node))
    dZ = _grouped(op, node, op.Mul(dY, per_channel(op, scale, dY)))
    dX = op.reshape(standard.gradient(op, dZ), X)
    dScale = sum_per_channel(op, op.Mul(dY, op.reshape(standard.Z, dY)), dY)
    return op.cast(dX, X), op.cast(dScale, scale), op.cast(sum_per_channel(op, dY, dY), B)


def _grouped(op: GradientBuilder, node: ir.Node, data: ir.Value) -> ir.Value:
    """Return data so that all axes from the third on belong to one group."""
    groups = node.attributes.get_int("num_groups")
    return data if groups is None else op.Reshape(data, [0, groups, -1])


@rule("MeanVarianceNormalization")
def mean_variance_normalization(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = (X - mean)/σ over axes, see `Standard` for dX; where the deviation σ is 0 it is 0."""
    X, axes = required(node), node.attributes.get_ints("axes", [0, 2, 3])
    data = op.widened(X)
    centred = op.Sub(data, op.ReduceMean(data, axes))
    variance = op.ReduceMean(op.Mul(centred, centred), axes)
    some = op.cast(variance, ir.DataType.BOOL)
    r = op.Where(some, op.Reciprocal(op.Sqrt(op.Where(some, variance, 1.0))), 0.0)
    standard = Standard(centred, op.Mul(centred, r), r, axes)
    return op.cast(standard.gradient(op, op.widened(dY)), X)


@rule("LpNormalization")
def lp_normalization(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X/n with a norm n, so dX = (dY - ∂n·Σ dY·Y)/n, where ∂n is Y or, for p = 1, sign(X).

    Where the norm is 0 it is 0.
    """
    X, Y = required(node), node.outputs[0]
    axis, p = node.attributes.get_int("axis", -1), node.attributes.get_int("p", 2)
    norm = op.ReduceL1(X, [axis]) if p == 1 else op.ReduceL2(X, [axis])
    slope = op.Sign(X) if p == 1 else Y
    along = op.Mul(slope, op.ReduceSum(op.Mul(dY, Y), [axis]))
    known = op.cast(norm, ir.DataType.BOOL)
    return op.Where(known, op.Div(op.Sub(dY, along), op.Where(known, norm, 1.0)), 0.0)


@rule("LRN")
def local_response_normalization(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = X/S^β, S = bias + a·Σ X² over the channels beside: dX = dY/S^β - 2aβ·X·Σ dY·X/S^(β+1).

    The second sum is over the channels that this one lies beside.
    """
    X, size = required(node), node.attributes["size"].as_int()
    a = node.attributes.get_float("alpha", 1e-4) / size
    beta = node.attributes.get_float("beta", 0.75)
    data, dY = ranked(op, op.widened(X), op.widened(dY))
    before, after = (size - 1) // 2, size // 2
    squares = _sum_beside(op, op.Mul(data, data), before, after)
    S = op.Add(op.Mul(squares, a), node.attributes.get_float("bias", 1.0))
    scaled = op.Mul(dY, op.Pow(S, -beta))
    sums = _sum_beside(op, op.Div(op.Mul(scaled, data), S), after, before)
    dX = op.Sub(scaled, op.Mul(op.Mul(data, sums), 2 * a * beta))
    return op.cast(op.reshape(dX, X), X)


def _sum_beside(op: GradientBuilder, data: ir.Value, before: int, after: int) -> ir.Value:
    """Add up so many channels before and after each."""
    others = [0 for _ in other_axes(data)[1:]]
    ones = np.ones((1, 1, before + 1 + after, *[1] * len(others)))
    weight, pads = op.constant(ones, data.dtype), [before, *others, after, *others]
    return op.Squeeze(op.Conv(op.Unsqueeze(data, [1]), weight, pads=pads), [1])
