"""Factors and offsets of channels or of columns."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.channels import channel_sum, per_channel
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_argument, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("AffineChannel")
def affine_channel(op: Emitter, node: Operator) -> ir.Value:
    """Y = X·scale + bias for each channel."""
    X, scale, bias = node.tensors(3)
    return op.Add(op.Mul(X, per_channel(op, node, scale, X)), per_channel(op, node, bias, X))


@lowering("AffineChannelGradient")
def affine_channel_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY·scale; with `is_learnable` dscale = Σ dY·X and dbias = Σ dY for each channel."""
    if not node.args.bool("is_learnable", False):
        dY, scale = node.tensors(2)
        return [op.Mul(dY, per_channel(op, node, scale, dY))]
    dY, X, scale = node.tensors(3)
    dX = op.Mul(dY, per_channel(op, node, scale, dY))
    return [dX, channel_sum(op, node, op.Mul(dY, X)), channel_sum(op, node, dY)]


@gradient_operator("AffineChannel")
def affine_channel_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX, dscale, dbias = AffineChannelGradient(dY, X, scale), or dX alone from dY and scale."""
    X, scale, bias = op.input
    if Arguments(op).bool("is_learnable", False):
        inputs = [dys[0], X, scale]
        return [*grad.emit("AffineChannelGradient", inputs, of=[X, scale, bias], like=op)]
    return [*grad.emit("AffineChannelGradient", [dys[0], scale], of=[X], like=op), None, None]


@lowering("ElementwiseLinear")
def elementwise_linear(op: Emitter, node: Operator) -> ir.Value:
    """Y = X·a + b for each column of X as a matrix."""
    X, a, b = node.tensors(3)
    rows = matrix(op, X, axis_argument(node, X))
    return op.reshape(op.Add(op.Mul(rows, a), b), X)


@lowering("ElementwiseLinearGradient")
def elementwise_linear_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY·a; da = Σ dY·X and db = Σ dY for each column."""
    dY, X, a = node.tensors(3)
    axis = axis_argument(node, X)
    dY, rows = matrix(op, dY, axis), matrix(op, X, axis)
    sums = [op.ReduceSum(each, [0], keepdims=0) for each in (op.Mul(dY, rows), dY)]
    return [op.reshape(op.Mul(dY, a), X), *sums]


@gradient_operator("ElementwiseLinear")
def elementwise_linear_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX, da, db = ElementwiseLinearGradient(dY, X, a)."""
    X, a, _ = op.input
    return grad.emit("ElementwiseLinearGradient", [dys[0], X, a], of=op.input, like=op)
