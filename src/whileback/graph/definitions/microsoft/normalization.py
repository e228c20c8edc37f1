"""Layers that are normalized, with what is added before."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.table import definition
from whileback.graph.microsoft import MICROSOFT
from whileback.graph.shapes import describe, rank

Values = Sequence[ir.Value | None]

_EPSILON = 1e-12


@definition(MICROSOFT, "SkipLayerNormalization")
def skip_layer_normalization(
    op: Builder,
    node: ir.Node,
    input: ir.Value,
    skip: ir.Value,
    gamma: ir.Value,
    beta: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> Values:
    """Y = LayerNormalization(input + skip + bias)."""
    total = _total(op, input, skip, bias)
    return (*_normalized(op, node, total, gamma, beta), total)


@definition(MICROSOFT, "SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    op: Builder,
    node: ir.Node,
    input: ir.Value,
    skip: ir.Value,
    gamma: ir.Value,
    bias: ir.Value | None = None,
) -> Values:
    """Y = γ·x/√(mean x² + ε) for x = input + skip + bias."""
    total = _total(op, input, skip, bias)
    Y, inverse = _simplified(op, total, gamma, [-1], node.attributes.get_float("epsilon", _EPSILON))
    return Y, None, inverse, total


@definition("", "SimplifiedLayerNormalization")
def simplified_layer_normalization(
    op: Builder, node: ir.Node, X: ir.Value, scale: ir.Value
) -> Values:
    """Y = scale·X/√(mean X² + ε), over all axes from `axis` on."""
    axis, count = node.attributes.get_int("axis", -1), rank(X)
    if axis != -1 and count is None:
        raise UnsupportedError(
            f"Node '{node.name}' (SimplifiedLayerNormalization) normalizes axes from {axis} on of "
            f"'{X.name}' ({describe(X)}), whose rank is not known. Declare its shape; dimensions "
            "may be symbols."
        )
    axes = [-1] if count is None else list(range(axis % count, count))
    return _simplified(op, X, scale, axes, node.attributes.get_float("epsilon", 1e-5))


@definition(MICROSOFT, "EmbedLayerNormalization")
def embed_layer_normalization(
    op: Builder,
    node: ir.Node,
    input_ids: ir.Value,
    segment_ids: ir.Value | None,
    words: ir.Value,
    positions: ir.Value,
    segments: ir.Value | None,
    gamma: ir.Value,
    beta: ir.Value,
    mask: ir.Value | None = None,
    position_ids: ir.Value | None = None,
) -> Values:
    """Y = LayerNormalization(words[ids] + positions[i] + segments[ids])."""
    places = op.arange(op.dim(input_ids, 1)) if position_ids is None else position_ids
    total = op.Add(op.Gather(words, input_ids), op.Gather(positions, places))
    if segments is not None and segment_ids is not None:
        total = op.Add(total, op.Gather(segments, segment_ids))
    Y = _normalized(op, node, total, gamma, beta)[0]
    int32 = ir.DataType.INT32
    if mask is None:
        counts = op.Expand(op.constant(0, int32), op.dim(input_ids, 0))
    else:
        is_one = op.Equal(mask, op.constant(1, mask.dtype))
        counts = op.ReduceSum(op.cast(is_one, int32), [1], keepdims=0)
    return Y, counts, total


def _total(op: Builder, input: ir.Value, skip: ir.Value, bias: ir.Value | None) -> ir.Value:
    total = op.Add(input, skip)
    return total if bias is None else op.Add(total, bias)


def _normalized(
    op: Builder, node: ir.Node, X: ir.Value, gamma: ir.Value, beta: ir.Value | None
) -> Sequence[ir.Value]:
    attributes = {"axis": -1, "epsilon": node.attributes.get_float("epsilon", _EPSILON)}
    return op.emit("LayerNormalization", [X, gamma, beta], attributes, outputs=3)


def _simplified(
    op: Builder, X: ir.Value, scale: ir.Value, axes: list[int], epsilon: float
) -> tuple[ir.Value, ir.Value]:
    """Return the normalized values, and 1/√(mean X² + ε), computed at least in FLOAT."""
    double = X.dtype == ir.DataType.DOUBLE
    wide = X if double else op.cast(X, ir.DataType.FLOAT)
    mean = op.ReduceMean(op.Mul(wide, wide), axes)
    inverse = op.Reciprocal(op.Sqrt(op.Add(mean, epsilon)))
    return op.cast(op.Mul(op.Mul(wide, inverse), op.cast(scale, wide)), X), inverse
