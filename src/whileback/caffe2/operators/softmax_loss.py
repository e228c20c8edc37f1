"""Softmax together with its cross entropy.

The loss is the sum over examples of `share · cross entropy`; so dX = share·(P - T)·dloss, where T
is 1 at the label, or what probability was given.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.entropies import at_labels, column, logarithm, picked
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_argument, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import UnsupportedError
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

# The label of a place that does not count.
DONT_CARE = -1


@lowering("SoftmaxWithLoss")
def softmax_with_loss(op: Emitter, node: Operator) -> list[ir.Value]:
    """P = softmax(X), loss = Σ share·(-log P at the label), or Σ share·(-T·log P)."""
    X, labels = node.tensors(2)
    rows = matrix(op, X, axis_argument(node, X))
    P = op.Softmax(rows, axis=-1)
    if node.args.bool("label_prob", False):
        products = op.Mul(op.reshape(labels, P), logarithm(op, P))
        losses = op.Neg(op.ReduceSum(products, [1]))
    else:
        losses = op.Neg(picked(op, op.LogSoftmax(rows, axis=-1), labels))
    share = _share(op, node, P, node.optional(2))
    return [op.reshape(P, X), op.ReduceSum(op.Mul(losses, share), keepdims=0)]


def _share(op: Emitter, node: Operator, P: ir.Value, weights: ir.Value | None = None) -> ir.Value:
    """Return scale·weight / Σ weight, or scale·weight / number of examples, for each example."""
    scale = node.args.float("scale", 1.0)
    if weights is None:
        return op.Div(scale, _number(op, P))
    weights = column(op, weights)
    if node.args.bool("average_by_batch_size", False):
        return op.Div(op.Mul(weights, scale), _number(op, P))
    return _normalized(op, weights, scale)


def _number(op: Emitter, P: ir.Value) -> ir.Value:
    """Return the number of rows, at least 1."""
    return op.cast(op.Max(op.dim(P, 0), 1), P)


def _normalized(op: Emitter, weights: ir.Value, scale: float) -> ir.Value:
    """Return scale·weight / Σ weight, 0 where the sum is."""
    total = op.ReduceSum(weights, keepdims=0)
    return op.Mul(weights, op.Div(scale, op.Where(op.Greater(total, 0.0), total, 1.0)))


@lowering("SoftmaxWithLossGradient")
def softmax_with_loss_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = share·(P - T)·dloss, from X, labels or T, the weights if there are any, P and dloss."""
    X, labels, *weights, P, dloss = node.tensors(len(node.inputs))
    P = matrix(op, P, axis_argument(node, X))
    if node.args.bool("label_prob", False):
        T = op.reshape(labels, P)
    else:
        T = at_labels(op, op.Squeeze(column(op, labels), [1]), P)
    share = _share(op, node, P, *weights)
    return op.reshape(op.Mul(op.Sub(P, T), op.Mul(share, dloss)), X)


@lowering("SpatialSoftmaxWithLoss")
def spatial_softmax_with_loss(op: Emitter, node: Operator) -> list[ir.Value]:
    """P = softmax of X over its channels, loss = Σ share·(-log P at the label of each place).

    The argument `scale` has no part in it.
    """
    X, labels = node.tensors(2)
    P = op.Softmax(X, axis=1)
    picked = op.GatherElements(P, op.Unsqueeze(labels, [1]), axis=1)
    share = _spatial_share(op, node, P, labels, node.optional(2))
    losses = op.Mul(logarithm(op, picked), op.Neg(share))
    return [P, op.ReduceSum(losses, keepdims=0)]


def _spatial_share(
    op: Emitter, node: Operator, P: ir.Value, labels: ir.Value, weights: ir.Value | None = None
) -> ir.Value:
    """Return weight / Σ weight for each place, without those of the label -1."""
    if node.args.string("order", "NCHW") != "NCHW":
        raise UnsupportedError("it is there for the order NCHW alone. Transpose its inputs.")
    labels = op.Unsqueeze(op.cast(labels, ir.DataType.INT64), [1])
    factors = op.cast(op.Not(op.Equal(labels, DONT_CARE)), P)
    if weights is not None:
        factors = op.Mul(factors, op.reshape(weights, factors))
    return _normalized(op, factors, 1.0)


@lowering("SpatialSoftmaxWithLossGradient")
def spatial_softmax_with_loss_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = scale·share·(P - T)·dloss, from X, labels, weights if there are any, P and dloss."""
    _, labels, *weights, P, dloss = node.tensors(len(node.inputs))
    share = _spatial_share(op, node, P, labels, *weights)
    factor = op.Mul(op.Mul(share, node.args.float("scale", 1.0)), dloss)
    return op.Mul(op.Sub(P, at_labels(op, labels, P)), factor)


@gradient_operator("SoftmaxWithLoss", "SpatialSoftmaxWithLoss")
def softmax_with_loss_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> list[str | None]:
    """dX = SoftmaxWithLossGradient(X, labels, …, P, dloss), and what P's readers add to it.

    The spatial loss knows no `scale`; so its gradient is not told of one either.
    """
    X, P = op.input[0], op.output[0]
    terms = []
    if dys[1] is not None:
        like = op if op.type == "SoftmaxWithLoss" else OperatorDef()
        terms += grad.emit(f"{op.type}Gradient", [*op.input, P, dys[1]], of=[X], like=like)
    if dys[0] is not None:
        terms.append(_through_softmax(grad, op, dys[0]))
    dX = terms[0] if len(terms) == 1 else grad.add("Sum", terms, f"{X}_grad")
    return [dX, *[None] * (len(op.input) - 1)]


def _through_softmax(grad: Gradients, op: OperatorDef, dP: str) -> str:
    """Return what X gets from P; that of each place is in a row if the channels come last."""
    P, dX = op.output[0], f"{op.input[0]}_grad"
    if op.type == "SoftmaxWithLoss":
        return grad.add("SoftmaxGradient", [P, dP], dX, axis=Arguments(op).int("axis", 1))
    rows = [grad.add("NCHW2NHWC", [blob], f"{blob}_nhwc") for blob in (P, dP)]
    return grad.add("NHWC2NCHW", [grad.add("SoftmaxGradient", rows, f"{dX}_nhwc", axis=3)], dX)
