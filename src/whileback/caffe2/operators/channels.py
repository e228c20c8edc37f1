"""Numbers that belong to the channels of images: sums over all else, and factors."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.orders import is_nhwc
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import output_gradients, replayed_gradient
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

__all__ = ["channel_sum", "other_axes", "per_channel", "standardized", "sums_of_gradient"]


def other_axes(node: Operator, X: ir.Value) -> list[int]:
    """Return the axes of images but that of their channels."""
    axes = list(range(known_rank(node, X)))
    axes.pop(-1 if is_nhwc(node) else 1)
    return axes


def channel_sum(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    """Return the sum over each channel."""
    return op.ReduceSum(X, other_axes(node, X), keepdims=0)


def per_channel(op: Emitter, node: Operator, value: ir.Value, X: ir.Value) -> ir.Value:
    """Return a number for each channel in a shape that broadcasts to that of X."""
    trailing = [] if is_nhwc(node) else list(range(1, known_rank(node, X) - 1))
    return op.Unsqueeze(value, trailing) if trailing else value


@lowering("BatchMoments")
def batch_moments(op: Emitter, node: Operator) -> list[ir.Value]:
    """The means of X and of X² over each channel."""
    (X,) = node.tensors(1)
    axes = other_axes(node, X)
    return [op.ReduceMean(value, axes, keepdims=0) for value in (X, op.Mul(X, X))]


replayed_gradient("dY0 dY1 X0", "X0", "BatchMoments")


@lowering("ChannelStats")
def channel_stats(op: Emitter, node: Operator) -> list[ir.Value]:
    """The sums of X and of X² over each channel."""
    (X,) = node.tensors(1)
    return [channel_sum(op, node, X), channel_sum(op, node, op.Mul(X, X))]


@gradient_operator("ChannelStats")
def channel_stats_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> str:
    """dX = 2·X·dsquares + dsums."""
    dsums, dsquares = output_gradients(grad, op, dys, 2)
    X, order = op.input[0], Arguments(op).string("order", "NCHW")
    factor = grad.add("Scale", [dsquares], f"{dsquares}_twice", scale=2.0)
    return grad.add("AffineChannel", [X, factor, dsums], f"{X}_grad", order=order)


@lowering("ChannelBackpropStats")
def channel_backprop_stats(op: Emitter, node: Operator) -> list[ir.Value]:
    """The sums of dY·Z and of dY over each channel, where Z = (X - mean)·r."""
    X, mean, r, dY = node.tensors(4)
    return sums_of_gradient(op, node, dY, standardized(op, node, X, mean, r))


def standardized(op: Emitter, node: Operator, X: ir.Value, mean: ir.Value, r: ir.Value) -> ir.Value:
    """Return Z = (X - mean)·r for each channel."""
    return op.Mul(op.Sub(X, per_channel(op, node, mean, X)), per_channel(op, node, r, X))


def sums_of_gradient(op: Emitter, node: Operator, dY: ir.Value, Z: ir.Value) -> list[ir.Value]:
    """Return the gradients of scale and bias: the sums of dY·Z and of dY over each channel."""
    return [channel_sum(op, node, op.Mul(dY, Z)), channel_sum(op, node, dY)]
