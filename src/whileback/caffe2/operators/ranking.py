"""Losses of pairs that should come in an order."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.reading.emitter import Emitter


def _hinge(op: Emitter, X: ir.Value) -> ir.Value:
    """Return max(X, 0), which still has slope 1 at 0."""
    return op.Where(op.Less(X, 0.0), 0.0, X)


@lowering("MarginRankingCriterion")
def margin_ranking(op: Emitter, node: Operator) -> ir.Value:
    """loss = max(0, margin - T·(X1 - X2)), where T is 1 or -1."""
    X1, X2, T = node.tensors(3)
    ahead = op.Mul(op.cast(T, X1), op.Sub(X1, X2))
    return _hinge(op, op.Sub(node.args.float("margin", 1.0), ahead))


replayed_gradient("X0 X1 X2 dY0", "X0 X1", "MarginRankingCriterion")


@lowering("CosineEmbeddingCriterion")
def cosine_embedding(op: Emitter, node: Operator) -> ir.Value:
    """loss = 1 - S where T is 1, else max(0, S - margin)."""
    S, T = node.tensors(2)
    apart = _hinge(op, op.Sub(S, node.args.float("margin", 0.0)))
    return op.Where(op.Equal(T, op.cast(op.constant(1), T)), op.Sub(1.0, S), apart)


replayed_gradient("X0 X1 dY0", "X0", "CosineEmbeddingCriterion")


@lowering("PairWiseLoss")
def pair_wise_loss(op: Emitter, node: Operator) -> ir.Value:
    """Mean of log(1 + exp(x_j - x_i)) over all pairs whose labels say T_i > T_j.

    One mean over all, or one over each session where their lengths are given.
    """
    X, T = (op.Reshape(value, [-1]) for value in node.tensors(2))
    members = _members(op, T, node.optional(2))
    better = op.Greater(op.Unsqueeze(T, [1]), op.Unsqueeze(T, [0]))
    together = op.Gemm(members, members, transA=1)
    pairs = op.Mul(op.cast(better, X), together)
    losses = op.Softplus(op.Sub(op.Unsqueeze(X, [0]), op.Unsqueeze(X, [1])))
    totals, counts = (
        op.MatMul(members, op.ReduceSum(each, [1])) for each in (op.Mul(pairs, losses), pairs)
    )
    return op.Squeeze(op.Div(totals, op.Max(counts, 1.0)), [1])


def _members(op: Emitter, T: ir.Value, lengths: ir.Value | None) -> ir.Value:
    """Return a matrix with a row for each session, 1 for what belongs to it, else 0."""
    if lengths is None:
        return op.Unsqueeze(op.Expand(op.constant(1.0, T.dtype), op.Shape(T)), [0])
    lengths = op.Unsqueeze(op.cast(lengths, ir.DataType.INT64), [1])
    ends = op.CumSum(lengths, 0)
    starts = op.Sub(ends, lengths)
    places = op.Unsqueeze(op.arange(op.Shape(T)), [0])
    inside = op.And(op.GreaterOrEqual(places, starts), op.Less(places, ends))
    return op.cast(inside, T)


replayed_gradient("X0 X1 dY0 X2?", "X0", "PairWiseLoss")
