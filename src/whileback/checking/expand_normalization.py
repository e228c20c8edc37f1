"""Expansions of normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.checking.expansion import Expansion, float_attribute, known_rank
from whileback.graph.builder import Builder

__all__ = ["NORMALIZATION"]


def _standardized(
    op: Builder, x: ir.Value, axes: Sequence[int], epsilon: float
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return (x - mean)/√(variance + ε), the mean and 1/√(variance + ε)."""
    mean = op.ReduceMean(x, list(axes), keepdims=1)
    centred = op.Sub(x, mean)
    variance = op.ReduceMean(op.Mul(centred, centred), list(axes), keepdims=1)
    scale = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    return op.Mul(centred, scale), mean, scale


def _layer_normalization(
    op: Builder, node: ir.Node, x: ir.Value, scale: ir.Value, bias: ir.Value | None = None
) -> Sequence[ir.Value]:
    first, rank = node.attributes.get_int("axis", -1), known_rank(x)
    axes = range(first % rank, rank)
    epsilon = float_attribute(node, "epsilon", 1e-5)
    standard, mean, inverse = _standardized(op, x, axes, epsilon)
    scaled = op.Mul(standard, scale)
    return [scaled if bias is None else op.Add(scaled, bias), mean, inverse]


def _instance_normalization(
    op: Builder, node: ir.Node, x: ir.Value, scale: ir.Value, bias: ir.Value
) -> Sequence[ir.Value]:
    axes = range(2, known_rank(x))
    standard, *_ = _standardized(op, x, axes, float_attribute(node, "epsilon", 1e-5))
    scale, bias = (op.Unsqueeze(each, [axis - 1 for axis in axes]) for each in (scale, bias))
    return [op.Add(op.Mul(standard, scale), bias)]


def _mean_variance_normalization(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    axes = node.attributes.get_ints("axes", [0, 2, 3])
    mean = op.ReduceMean(x, axes, keepdims=1)
    centred = op.Sub(x, mean)
    deviation = op.Sqrt(op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1))
    return [op.Div(centred, op.Add(deviation, 1e-9))]


def _local_response_normalization(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    """x / (bias + α/size · sum of squares over neighbouring channels)^β."""
    size = node.attributes.get_int("size", 1)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    padded = op.Pad(op.Mul(x, x), [before, after], None, [1])
    channels = op.dim(x, 1)
    squares = [op.Slice(padded, [start], op.Add(channels, [start]), [1]) for start in range(size)]
    total = op.emit("Sum", squares)[0]
    base = op.Add(
        op.Mul(total, float_attribute(node, "alpha", 1e-4) / size),
        float_attribute(node, "bias", 1.0),
    )
    return [op.Div(x, op.Pow(base, float_attribute(node, "beta", 0.75)))]


NORMALIZATION: dict[str, Expansion] = {
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response_normalization,
    "LayerNormalization": _layer_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
}
