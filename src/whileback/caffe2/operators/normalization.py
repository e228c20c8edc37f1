"""Normalization of each example by moments of its own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.channels import per_channel
from whileback.caffe2.operators.moments import moments
from whileback.caffe2.operators.orders import from_nchw, to_nchw
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import output_gradients, replayed_gradient
from whileback.caffe2.operators.shapes import axis_argument, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

EPSILON = 1e-5


@lowering("LayerNorm")
def layer_norm(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = (X - mean)/deviation over the axes from `axis` on, then ·scale + bias.

    Mean and deviation, √(variance + ε), are results too.
    """
    (X,) = node.tensors(1)
    axis = axis_argument(node, X)
    affine = node.tensors(3)[1:] if node.args.bool("elementwise_affine", False) else []
    Y, mean, r = _layer_norm(op, node, X, *affine)
    leading = op.Concat(op.Shape(X, start=0, end=axis), [1], axis=0)
    mean, r = (op.Reshape(value, leading, allowzero=1) for value in (mean, r))
    return [Y, mean, op.Reciprocal(r)]


def _layer_norm(
    op: Emitter, node: Operator, X: ir.Value, *affine: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return Y, and mean and inverse deviation of each row of X as a matrix."""
    rows, epsilon = matrix(op, X, axis_argument(node, X)), node.args.float("epsilon", EPSILON)
    vectors = [op.Reshape(value, [-1]) for value in affine]
    if X.dtype == ir.DataType.DOUBLE:  # of which ONNX Runtime 1.32 returns moments in FLOAT
        Y, mean, r = _standardized(op, rows, [1], epsilon)
        for combine, vector in zip((op.Mul, op.Add), vectors, strict=False):
            Y = combine(Y, vector)
    else:
        vectors = vectors or [op.Expand(op.constant(1.0, X.dtype), op.dim(rows, 1))]
        attributes = {"axis": -1, "epsilon": epsilon}
        Y, mean, r = op.emit("LayerNormalization", [rows, *vectors], attributes, 3)
    return op.reshape(Y, X), mean, r


def _standardized(
    op: Emitter, X: ir.Value, axes: Sequence[int], epsilon: float
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return Z = (X - mean)·r over axes, mean, and r = 1/√(variance + ε)."""
    mean, variance = moments(op, X, axes)
    r = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    return op.Mul(op.Sub(X, mean), r), mean, r


@lowering("LayerNormGradient")
def layer_norm_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of X, scale and bias, from dY, Y, mean, deviation, X and scale."""
    dY, _, _, _, X = node.tensors(5)
    if not node.args.bool("elementwise_affine", False):
        return op.pullback(lambda op, X: _layer_norm(op, node, X)[0], [X], [dY])
    scale = node.tensors(6)[5]
    dX, dscale = op.pullback(
        lambda op, X, scale: _layer_norm(op, node, X, scale)[0], [X, scale], [dY]
    )
    dbias = op.ReduceSum(matrix(op, dY, axis_argument(node, X)), [0], keepdims=0)
    return [dX, dscale, op.reshape(dbias, scale)]


@gradient_operator("LayerNorm")
def layer_norm_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX, dscale, dbias = LayerNormGradient(dY, Y, mean, deviation, X, scale)."""
    affine = Arguments(op).bool("elementwise_affine", False)
    inputs = [*output_gradients(grad, op, dys), *op.output, *op.input[: 2 if affine else 1]]
    found = grad.emit("LayerNormGradient", inputs, of=op.input[: 3 if affine else 1], like=op)
    return [*found, *[None] * (len(op.input) - len(found))]


def _instance_norm(
    op: Emitter, node: Operator, groups: ir.Value, *affine: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return Y, mean and inverse deviation of each last axis of three."""
    epsilon = node.args.float("epsilon", EPSILON)
    Y = op.InstanceNormalization(groups, *affine, epsilon=epsilon)
    _, mean, r = _standardized(op, groups, [2], epsilon)
    return Y, op.Squeeze(mean, [2]), op.Squeeze(r, [2])


@lowering("InstanceNorm")
def instance_norm(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = (X - mean)·r·scale + bias for each channel of each image; mean and r = 1/√(var + ε)."""
    X, scale, bias = node.tensors(3)
    X = to_nchw(op, node, X)
    Y, mean, r = _instance_norm(op, node, op.Reshape(X, [0, 0, -1]), scale, bias)
    return [from_nchw(op, node, op.reshape(Y, X)), mean, r]


replayed_gradient("X0 X1 X2 dY0 Y1? Y2?", "X0 X1 X2", "InstanceNorm")


@lowering("GroupNorm")
def group_norm(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = (X - mean)·r·scale + bias, moments over groups of channels; mean and r = 1/√(var + ε)."""
    X, scale, bias = node.tensors(3)
    X = to_nchw(op, node, X)
    count = _groups(node, X)
    unit = [op.Expand(op.constant(value, X.dtype), [count]) for value in (1.0, 0.0)]
    Y, mean, r = _instance_norm(op, node, op.Reshape(X, [0, count, -1]), *unit)
    Y = from_nchw(op, node, op.reshape(Y, X))
    Y = op.Mul(Y, per_channel(op, node, scale, Y))
    return [op.Add(Y, per_channel(op, node, bias, Y)), mean, r]


def _groups(node: Operator, X: ir.Value) -> int:
    """Return the number of groups of channels.

    Raises: NetDefError if they cannot all have equally many.
    """
    count, channels = node.args.int("group", 32), X.shape[1] if X.shape is not None else None
    if count < 1 or (isinstance(channels, int) and channels % count):
        raise NetDefError(
            f"{label(node.proto)} cannot divide {channels} channels into {count} groups."
        )
    return count


replayed_gradient("dY0 X0 X1 X2 Y1 Y2", "X0 X1 X2", "GroupNorm")


@lowering("RMSNorm")
def rms_norm(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = X·r·scale + bias, where r = 1/√(mean X² + ε) over the axes from `axis` on."""
    X, scale, bias = node.tensors(3)
    axis = axis_argument(node, X)
    rows = matrix(op, X, axis)
    square = op.ReduceMean(op.Mul(rows, rows), [1])
    r = op.Reciprocal(op.Sqrt(op.Add(square, node.args.float("eps", EPSILON))))
    Y = op.Add(op.Mul(op.Mul(rows, r), op.Reshape(scale, [-1])), op.Reshape(bias, [-1]))
    return [op.reshape(Y, X), op.Reshape(r, op.Shape(X, start=0, end=axis), allowzero=1)]


@lowering("RMSNormGradient")
def rms_norm_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of X, scale and bias, from dY, X, scale and r."""
    dY, X, scale, _ = node.tensors(4)
    zeros = op.zeros_like(scale)
    return op.pullback(
        lambda op, *inputs: rms_norm(op, Operator(node.proto, inputs))[0], [X, scale, zeros], [dY]
    )


@gradient_operator("RMSNorm")
def rms_norm_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX, dscale, dbias = RMSNormGradient(dY, X, scale, r)."""
    (dY,) = output_gradients(grad, op, dys)
    X, scale, bias = op.input
    return grad.emit("RMSNormGradient", [dY, X, scale, op.output[1]], of=[X, scale, bias], like=op)
