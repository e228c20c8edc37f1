"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx_ir as ir

from whileback.caffe2.operators.channels import channel_sum
from whileback.caffe2.operators.orders import from_nchw, to_nchw
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.operators.windows import LegacyPad, legacy_window, per_axis, window_over
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, add_argument, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

Convolution = Callable[[Emitter, Operator, ir.Value, ir.Value, ir.Value | None], ir.Value]


def _convolution(
    op: Emitter, node: Operator, X: ir.Value, W: ir.Value, B: ir.Value | None = None
) -> ir.Value:
    X, W = to_nchw(op, node, X), to_nchw(op, node, W)
    attributes = legacy_window(node, X).attributes
    return from_nchw(op, node, op.Conv(X, W, B, group=node.args.int("group", 1), **attributes))


def _transposed(
    op: Emitter, node: Operator, X: ir.Value, W: ir.Value, B: ir.Value | None = None
) -> ir.Value:
    """Emit a ConvTranspose; Caffe2 reads no dilation here, and pads as `pad` says alone."""
    if node.args.int("legacy_pad", 0) == LegacyPad.CAFFE:
        raise NetDefError(f"{label(node.proto)} has legacy_pad 3, which only Conv and pools have.")
    X, W = to_nchw(op, node, X), to_nchw(op, node, W)
    window = replace(window_over(node, X), dilations=[1] * (known_rank(node, X) - 2))
    more = _adjustment(node, window.strides)
    group = node.args.int("group", 1)
    Y = op.ConvTranspose(X, W, B, group=group, output_padding=more, **window.attributes)
    return from_nchw(op, node, Y)


def _adjustment(node: Operator, strides: Sequence[int]) -> list[int]:
    """Return by how much each axis becomes longer at its end."""
    more = per_axis(node, "adj", "hw", len(strides), 0)
    if any(not 0 <= each < stride for each, stride in zip(more, strides, strict=True)):
        raise NetDefError(
            f"{label(node.proto)} has adj {more} and stride {strides}; adj must be less than the "
            "stride, and not negative."
        )
    return more


@lowering("Conv", "Conv1D", "Conv2D", "Conv3D")
def conv(op: Emitter, node: Operator) -> ir.Value:
    """Y[n,m,o] = Σ W[m,c,k]·X[n,c,stride·o + dilation·k - pad] + B[m], within each group."""
    X, W = node.tensors(2)
    return _convolution(op, node, X, W, node.optional(2))


@lowering("ConvRelu")
def conv_relu(op: Emitter, node: Operator) -> ir.Value:
    """Y = max(Conv(X, W, B), 0)."""
    return op.Relu(conv(op, node))


@lowering("ConvTranspose")
def conv_transpose(op: Emitter, node: Operator) -> ir.Value:
    """Y[n,m,stride·i + k - pad] = Σ W[c,m,k]·X[n,c,i] + B[m], and `adj` elements more."""
    X, W = node.tensors(2)
    return _transposed(op, node, X, W, node.optional(2))


@lowering("ConvGradient", "Conv1DGradient", "Conv2DGradient", "Conv3DGradient")
def conv_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of W, B and X, from X, W and dY; without that of B if there was `no_bias`."""
    return _gradients(op, node, _convolution)


@lowering("ConvTransposeGradient")
def conv_transpose_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of W, B and X, from X, W and dY; without that of B if there was `no_bias`."""
    return _gradients(op, node, _transposed)


def _gradients(op: Emitter, node: Operator, forward: Convolution) -> list[ir.Value]:
    X, W, dY = node.tensors(3)
    dX, dW = op.pullback(lambda op, X, W: forward(op, node, X, W, None), [X, W], [dY])
    if node.args.bool("no_bias", False):
        return [dW, dX]
    return [dW, channel_sum(op, node, dY), dX]


@gradient_operator("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose")
def conv_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dW, dB, dX = ConvGradient(X, W, dY): no dB with `no_bias`, no dX for want of a gradient."""
    X, W, *B = op.input
    of = [W, *B] if Arguments(op).bool("no_gradient_to_input", False) else [W, *B, X]
    like = _with_bias(op, bool(B))
    dW, *others = grad.emit(f"{op.type}Gradient", [X, W, dys[0]], of, like)
    dB, dX = others[: len(B)], [*others[len(B) :], None][0]
    return [dX, dW, *dB]


def _with_bias(op: OperatorDef, bias: bool) -> OperatorDef:
    """Return the operator with `no_bias` if it has none, as the gradient operators need it."""
    like = OperatorDef()
    like.CopyFrom(op)
    del like.arg[:]
    like.arg.extend(arg for arg in op.arg if arg.name != "no_bias")
    if not bias:
        add_argument(like, "no_bias", 1)
    return like


@gradient_operator("ConvRelu")
def conv_relu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dS = ReluGradient(Y, dY); dW, dB, dX = ConvGradient(X, W, dS)."""
    dS = grad.emit("ReluGradient", [op.output[0], dys[0]], op.output, op)
    like = OperatorDef()
    like.CopyFrom(op)
    like.type = "Conv"
    return conv_maker(grad, like, dS)
