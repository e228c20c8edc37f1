"""Pools: maximum, average and norm of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from whileback.caffe2.operators.orders import from_nchw, to_nchw
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.operators.windows import Window, fold, legacy_window, unfold
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

MAX = ("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
AVERAGE = ("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")


def _pool(op: Emitter, node: Operator, kind: str, **attributes: Any) -> ir.Value:
    """Return what ONNX's pool of a kind makes of images, or its global one."""
    X = to_nchw(op, node, *node.tensors(1))
    if _is_global(node):
        return from_nchw(op, node, op.emit(f"Global{kind}", [X], attributes)[0])
    window = _window(node, X)
    return from_nchw(op, node, op.emit(kind, [X], attributes | window.attributes)[0])


def _is_global(node: Operator) -> bool:
    return node.args.bool("global_pooling", False)


def _window(node: Operator, X: ir.Value) -> Window:
    window = legacy_window(node, X)
    kernels = [*window.kernel, *window.kernel]
    if any(pad >= kernel for pad, kernel in zip(window.pads, kernels, strict=True)):
        raise NetDefError(
            f"{label(node.proto)} has padding {window.pads} for a kernel of {window.kernel}, so "
            "that windows may hold nothing else. Make the kernel larger, or the padding smaller."
        )
    return window


@lowering(*MAX)
def max_pool(op: Emitter, node: Operator) -> ir.Value:
    """Y[o] = the largest element of window o."""
    return _pool(op, node, "MaxPool")


@lowering(*(f"{each}Gradient" for each in MAX))
def max_pool_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX adds up dY[o] wherever X in window o is Y[o]: of equal maxima each one gets all of it."""
    X, Y, dY = (to_nchw(op, node, value) for value in node.tensors(3))
    if _is_global(node):
        return from_nchw(op, node, _shared(op, X, Y, dY))
    window = _window(node, X)
    Y, dY = op.Unsqueeze(Y, [2]), op.Unsqueeze(dY, [2])
    shares = _shared(op, unfold(op, X, window), Y, dY)
    return from_nchw(op, node, fold(op, shares, X, window))


def _shared(op: Emitter, X: ir.Value, Y: ir.Value, dY: ir.Value) -> ir.Value:
    """Return dY where X is Y, else 0; a product is several times faster than Where."""
    return op.Mul(op.cast(op.Equal(X, Y), dY), dY)


@gradient_operator(*MAX)
def max_pool_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = MaxPoolGradient(X, Y, dY)."""
    inputs = [op.input[0], op.output[0], dys[0]]
    return grad.emit(f"{op.type}Gradient", inputs, of=op.input, like=op)


@lowering(*AVERAGE)
def average_pool(op: Emitter, node: Operator) -> ir.Value:
    """Y[o] = the mean of window o; its padding counts only with `count_include_pad`."""
    if _is_global(node):
        return _pool(op, node, "AveragePool")
    include = node.args.int("count_include_pad", 0)
    return _pool(op, node, "AveragePool", count_include_pad=include)


@lowering("LpPool")
def lp_pool(op: Emitter, node: Operator) -> ir.Value:
    """Y[o] = (Σ |X|ᵖ)^(1/p) over window o."""
    p = node.args.float("p", 2.0)
    if p != int(p) or p < 1:
        raise UnsupportedError(
            f"its p is {p}, and only the norms of whole numbers p ≥ 1 are known."
        )
    return _pool(op, node, "LpPool", p=int(p))


replayed_gradient("X0 Y0 dY0", "X0", *AVERAGE, "LpPool")
