"""Normalization of each channel over the images of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.channels import (
    other_axes,
    per_channel,
    standardized,
    sums_of_gradient,
)
from whileback.caffe2.operators.moments import moments
from whileback.caffe2.operators.orders import from_nchw, to_nchw
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import output_gradients
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import UnsupportedError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import size

EPSILON = 1e-5


@lowering("SpatialBN")
def spatial_bn(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = (X - mean)/√(variance + ε)·scale + bias for each channel.

    With `is_test` mean and variance are given. Else they are those of the batch, or, with
    `num_batches`, of several, of which the sums are given; then the running ones are updated, and
    the mean and the inverse deviation are results too.
    """
    running_mean, running_variance = node.tensors(5)[3:]
    if node.args.bool("is_test", False):
        return [_normalized(op, node, running_mean, running_variance)]
    mean, variance, count = _batch_moments(op, node)
    unbiased = op.Mul(variance, op.Div(count, op.Sub(count, 1.0)))
    return [
        _normalized(op, node, mean, variance),
        _mixed(op, node, running_mean, mean),
        _mixed(op, node, running_variance, unbiased),
        mean,
        _inverse_deviation(op, node, variance),
    ]


def _normalized(op: Emitter, node: Operator, mean: ir.Value, variance: ir.Value) -> ir.Value:
    X, scale, bias = node.tensors(3)
    X, epsilon = to_nchw(op, node, X), node.args.float("epsilon", EPSILON)
    # Not in ONNX's training mode: there ONNX Runtime 1.32 overwrites the running moments.
    Y = op.BatchNormalization(X, scale, bias, mean, variance, epsilon=epsilon)
    return from_nchw(op, node, Y)


def _batch_moments(op: Emitter, node: Operator) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return mean and variance of each channel, and the number of elements they are of."""
    X, scale = node.tensors(2)
    count, batches = _count(op, X, scale), node.args.int("num_batches", 1)
    if batches == 1:
        axes = other_axes(node, X)
        mean, variance = (op.Squeeze(value, axes) for value in moments(op, X, axes))
        return mean, variance, count
    count = op.Mul(count, float(batches))
    mean, square = (op.Div(sums, count) for sums in node.tensors(7)[5:])
    return mean, op.Sub(square, op.Mul(mean, mean)), count


def _count(op: Emitter, X: ir.Value, scale: ir.Value) -> ir.Value:
    """Return the number of elements of each channel."""
    total, channels = size(X), size(scale)
    if total is None or not channels:
        return op.Div(op.cast(op.Size(X), X), op.cast(op.Size(scale), X))
    return op.constant(total / channels, X.dtype)


def _mixed(op: Emitter, node: Operator, running: ir.Value, batch: ir.Value) -> ir.Value:
    """Return a running mean of which the batch has a share of 1 - momentum."""
    momentum = node.args.float("momentum", 0.9)
    return op.Add(op.Mul(running, momentum), op.Mul(batch, 1 - momentum))


def _inverse_deviation(op: Emitter, node: Operator, variance: ir.Value) -> ir.Value:
    return op.Reciprocal(op.Sqrt(op.Add(variance, node.args.float("epsilon", EPSILON))))


@lowering("SpatialBNGradient")
def spatial_bn_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dscale = Σ dY·Z, dbias = Σ dY, dX = (dY - (dbias + Z·dscale)/count)·scale·r for each channel.

    Z = (X - mean)·r with the saved mean and inverse deviation r. With `num_batches` the sums over
    all batches are given.
    """
    X, scale, dY, mean, r = node.tensors(5)
    count, batches = _count(op, X, scale), float(node.args.int("num_batches", 1))
    Z = standardized(op, node, X, mean, r)
    if batches > 1:
        sums = [op.Div(each, batches) for each in node.tensors(7)[5:]]
    else:
        sums = sums_of_gradient(op, node, dY, Z)
    dscale, dbias = sums
    along, offset, factor = (
        per_channel(op, node, value, X)
        for value in (op.Div(dscale, count), op.Div(dbias, count), op.Mul(scale, r))
    )
    dX = op.Mul(op.Sub(op.Sub(dY, offset), op.Mul(Z, along)), factor)
    return [dX, dscale, dbias]


@gradient_operator("SpatialBN")
def spatial_bn_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX, dscale, dbias = SpatialBNGradient(X, scale, dY, mean, inverse deviation).

    With `is_test` dX is scale·r·dY; Caffe2's operator has it as in training.
    """
    X, scale, bias, running_mean, running_variance = op.input[:5]
    args = Arguments(op)
    (dY,) = output_gradients(grad, op, dys)
    if args.int("num_batches", 1) > 1:
        raise UnsupportedError(
            f"{label(op)}: no gradient is known for a batch that is one of several (num_batches). "
            "Train with one."
        )
    wanted = [X, scale, bias]
    if not args.bool("is_test", False):
        inputs = [X, scale, dY, op.output[3], op.output[4]]
        return [*grad.emit("SpatialBNGradient", inputs, of=wanted, like=op), None, None]
    epsilon = grad.add(
        "ConstantFill", [running_variance], "epsilon", value=args.float("epsilon", EPSILON)
    )
    r = grad.add("Rsqrt", [grad.add("Add", [running_variance, epsilon], "variance")], "r")
    factor = grad.add("Mul", [scale, r], "factor")
    order = args.string("order", "NCHW")
    dX = grad.add("AffineChannelGradient", [dY, factor], f"{X}_grad", order=order)
    _, dscale, dbias = grad.emit(
        "SpatialBNGradient", [X, scale, dY, running_mean, r], of=wanted, like=op
    )
    return [dX, dscale, dbias, None, None]
