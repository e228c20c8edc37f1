"""The gradient of `Tile`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.graph.builder import Operand
from whileback.graph.constants import known_ints
from whileback.graph.dims import reshape_target
from whileback.graph.shapes import rank


@rule("Tile")
def tile(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X repeated along its axes, so dX is the sum of dY over the repetitions."""
    X, repeats = required(node), required(node, 1)
    shape, axes = _known_repetitions(X, repeats) or _repetitions(op, X, repeats)
    if isinstance(axes, list) and not axes:
        return dY
    return op.ReduceSum(op.Reshape(dY, shape, allowzero=1), axes, keepdims=0)


def _known_repetitions(X: ir.Value, repeats: ir.Value) -> tuple[list[int], list[int]] | None:
    """Return the shape of Y with an axis for every repetition, and these axes."""
    dims, counts = reshape_target(X.shape), known_ints(repeats)
    if dims is None or counts is None or (-1 in dims and 0 in counts):
        return None
    shape: list[int] = []
    axes: list[int] = []
    for dim, count in zip(dims, counts, strict=True):
        if count != 1:
            axes.append(len(shape))
            shape.append(count)
        shape.append(dim)
    return shape, axes


def _repetitions(op: GradientBuilder, X: ir.Value, repeats: ir.Value) -> tuple[ir.Value, Operand]:
    """Return the same as far as the run tells it: an axis for every repetition, even of one."""
    counts, dims = op.Unsqueeze(repeats, [1]), op.Unsqueeze(op.shape_of(X), [1])
    shape = op.Reshape(op.Concat(counts, dims, axis=1), [-1])
    known = rank(X)
    if known is None:
        return shape, op.Range(0, op.Size(shape), 2)
    return shape, list(range(0, 2 * known, 2))
