"""Rotary positions: pairs of numbers turned by angles that grow with the position."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.table import definition
from whileback.graph.microsoft import MICROSOFT
from whileback.graph.shapes import describe, rank

__all__ = ["rotated"]


@definition(MICROSOFT, "RotaryEmbedding")
def rotary_embedding(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    position_ids: ir.Value,
    cos_cache: ir.Value,
    sin_cache: ir.Value,
) -> ir.Value:
    """Y turns each pair of X by the angle of its position, whose cosine and sine are cached."""
    count, listed = rank(X), rank(position_ids)
    packed = bool(node.attributes.get_int("is_packed_batching", 0))
    if count is None or listed is None or packed:
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::RotaryEmbedding) has packed batches, or reads "
            f"'{X.name}' ({describe(X)}) and '{position_ids.name}' ({describe(position_ids)}), of "
            "which one has an unknown rank. Declare the shapes, and keep batches apart."
        )
    interleaved = bool(node.attributes.get_int("interleaved", 0))
    length = op.dim(X, 1 if count == 3 else 2)
    places = position_ids if listed == 2 else op.Add(position_ids, op.arange(length))
    cos, sin = (op.Gather(cache, places) for cache in (cos_cache, sin_cache))
    if count == 4:
        return rotated(op, X, cos, sin, interleaved)
    # The heads are parts of the last axis: as long as the node says, else as long as the angles.
    heads = node.attributes.get_int("num_heads", 0)
    size = [-1] if heads else op.Mul(op.dim(cos_cache, -1), 2)
    shape = op.Concat([0, 0], [heads or -1], size, axis=0)
    apart = op.Transpose(op.Reshape(X, shape), perm=[0, 2, 1, 3])
    turned = op.Transpose(rotated(op, apart, cos, sin, interleaved), perm=[0, 2, 1, 3])
    return op.reshape(turned, X)


def rotated(op: Builder, X: ir.Value, cos: ir.Value, sin: ir.Value, interleaved: bool) -> ir.Value:
    """Return X [batch, head, position, size] with its pairs turned.

    Args:
        op: emits operators.
        X: what is turned; elements behind twice as many as there are angles stay.
        cos, sin: of each angle, [batch, position, angle], or without the batch.
        interleaved: whether the numbers of a pair are neighbours, or else half of the size apart.
    """
    if rank(cos) == 3:
        cos, sin = op.Unsqueeze(cos, [1]), op.Unsqueeze(sin, [1])
    angles = op.dim(cos, -1)
    size = op.Mul(angles, 2)
    turned, rest = op.Slice(X, [0], size, [-1]), op.Slice(X, size, op.dim(X, -1), [-1])
    if interleaved:
        # [..., angle, 2], so that the pairs are along an axis of their own.
        pairs = op.Concat(op.Shape(X, start=0, end=3), angles, [2], axis=0)
        first, second = (op.Gather(op.Reshape(turned, pairs), k, axis=-1) for k in (0, 1))
    else:
        first = op.Slice(turned, [0], angles, [-1])
        second = op.Slice(turned, angles, size, [-1])
    real = op.Sub(op.Mul(first, cos), op.Mul(second, sin))
    imaginary = op.Add(op.Mul(first, sin), op.Mul(second, cos))
    if interleaved:
        parts = op.Concat(op.Unsqueeze(real, [-1]), op.Unsqueeze(imaginary, [-1]), axis=-1)
        whole = op.Reshape(parts, op.Shape(turned))
    else:
        whole = op.Concat(real, imaginary, axis=-1)
    return op.Concat(whole, rest, axis=-1)
