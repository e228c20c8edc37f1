"""Operators on images: normalization beside channels, padding, resizing, columns of windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.orders import (
    channels_first,
    channels_last,
    from_nchw,
    is_nhwc,
    to_nchw,
)
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import output_gradients, replayed_gradient
from whileback.caffe2.operators.shapes import LARGEST_COUNT, count_argument, known_rank
from whileback.caffe2.operators.windows import (
    fold,
    padded,
    per_axis,
    plane_size,
    plane_window,
    unfold,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.constants import known_floats
from whileback.graph.shapes import describe, same_shape

NEAREST = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
BILINEAR = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}


@lowering("LRN")
def lrn(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = X/S^beta, where S = bias + alpha/size·Σ X² over the channels beside; both are outputs."""
    (X,) = node.tensors(1)
    S = _response(op, node, X)
    return [op.Mul(X, _power(op, node, S)), S]


@lowering("LRNGradient")
def lrn_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY/S^beta - 2·beta·X·alpha/size·Σ dY·Y/S, over the channels that X lies beside."""
    X, Y, dY = node.tensors(3)
    S, (before, after) = _response(op, node, X), _beside(node)
    sums = _sums_beside(op, node, op.Div(op.Mul(dY, Y), S), after, before)
    change = op.Mul(op.Mul(X, sums), 2 * node.args.float("beta", 0.0))
    return op.Sub(op.Mul(dY, _power(op, node, S)), change)


@gradient_operator("LRN")
def lrn_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> list[str]:
    """dX = LRNGradient(X, Y, dY)."""
    (dY,) = output_gradients(grad, op, dys)
    return grad.emit("LRNGradient", [op.input[0], op.output[0], dY], of=op.input, like=op)


def _response(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    sums = _sums_beside(op, node, op.Mul(X, X), *_beside(node))
    return op.Add(sums, node.args.float("bias", 1.0))


def _power(op: Emitter, node: Operator, S: ir.Value) -> ir.Value:
    return op.Pow(S, -node.args.float("beta", 0.0))


def _beside(node: Operator) -> tuple[int, int]:
    """Return how many channels before and after each one count."""
    size = count_argument(node, "size")
    return (size - 1) // 2, size // 2


def _sums_beside(op: Emitter, node: Operator, X: ir.Value, before: int, after: int) -> ir.Value:
    """Return alpha/size·Σ X over so many channels before and after each."""
    plane, first = plane_size(X, known_rank(node, X) - 2), not is_nhwc(node)
    if first and plane > 0:
        row = op.Concat([0, 1], op.Mul(op.dim(X, 1), plane), axis=0)
        return _sums_along(op, node, op.Reshape(X, row), X, plane, (before, after))
    last = channels_last(op, node, X) if first else X
    rows = op.Unsqueeze(op.Flatten(last, axis=-1), [1])
    sums = _sums_along(op, node, rows, last, 1, (before, after))
    return channels_first(op, node, sums) if first else sums


def _sums_along(
    op: Emitter,
    node: Operator,
    rows: ir.Value,
    X: ir.Value,
    step: int,
    beside: tuple[int, int],
) -> ir.Value:
    """Return the sums as a convolution over rows, with the step from one channel to the next.

    On one axis ONNX Runtime is several times faster than on the planes of an image.
    """
    size = 1 + sum(beside)
    weight = np.full((1, 1, size), node.args.float("alpha", 0.0) / size)
    pads = [step * count for count in beside]
    return op.reshape(op.Conv(rows, op.constant(weight, X.dtype), dilations=[step], pads=pads), X)


def _mode(node: Operator) -> str:
    mode = node.args.string("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise NetDefError(
            f"{label(node.proto)} has mode '{mode}', not 'constant', 'reflect' or 'edge'."
        )
    return mode


def _edges(node: Operator) -> list[int]:
    return per_axis(node, "pad", "tlbr", 4, 0)


def _plane_axes(node: Operator, X: ir.Value) -> list[int]:
    if known_rank(node, X) != 4:
        raise NetDefError(f"{label(node.proto)} needs images of rank 4, not {describe(X)}.")
    return [1, 2] if is_nhwc(node) else [2, 3]


def _enlarged(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    mode = _mode(node)
    value = node.args.float("value", 0.0) if mode == "constant" else None
    return padded(op, X, _edges(node), _plane_axes(node, X), mode, value)


@lowering("PadImage")
def pad_image(op: Emitter, node: Operator) -> ir.Value:
    """Y is X amid a constant `value`, its mirror image, or copies of its edges."""
    return _enlarged(op, node, *node.tensors(1))


@lowering("PadImageGradient")
def pad_image_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX is dY cut to X, with what comes back to the copies added; X matters by its shape only."""
    (dY,) = node.tensors(1)
    cut = padded(op, dY, [-pad for pad in _edges(node)], _plane_axes(node, dY))
    if _mode(node) == "constant":
        return cut
    return op.pullback(lambda op, X: _enlarged(op, node, X), [cut], [dY])[0]


@gradient_operator("PadImage")
def pad_image_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = PadImageGradient(dY)."""
    return grad.emit("PadImageGradient", dys, of=op.input, like=op)


def _scales(op: Emitter, node: Operator, *sides: str) -> ir.Value:
    """Return the scales of all axes: from the second input, or from the arguments."""
    given = node.optional(1)
    if given is not None:
        return op.Concat(op.constant([1.0, 1.0], given.dtype), given, axis=0)
    scales = [node.args.float(f"{side}_scale", 1.0) for side in sides]
    if not all(0 < scale <= LARGEST_COUNT for scale in scales):
        raise NetDefError(
            f"{label(node.proto)} has scales {scales}; they must be positive, and no more than "
            f"{LARGEST_COUNT}."
        )
    return op.constant([1.0, 1.0, *scales], ir.DataType.FLOAT)


@lowering("ResizeNearest")
def resize_nearest(op: Emitter, node: Operator) -> ir.Value:
    """Y[h,w] = X[⌊h/height_scale⌋, ⌊w/width_scale⌋]; both scales may be the second input."""
    X = to_nchw(op, node, *node.tensors(1))
    scales = _scales(op, node, "height", "width")
    Y, known = op.Resize(X, None, scales, **NEAREST), known_floats(scales)
    if same_shape(X, Y) and known and set(known) != {1.0}:
        raise UnsupportedError(
            f"its scales {known[2:]} leave the size of its images as it is. Make them 1, or so "
            "large that the size changes."
        )
    return from_nchw(op, node, Y)


@lowering("ResizeNearest3D")
def resize_nearest_3d(op: Emitter, node: Operator) -> ir.Value:
    """Y[t,h,w] = X[⌊t/temporal_scale⌋, ⌊h/height_scale⌋, ⌊w/width_scale⌋]."""
    (X,) = node.tensors(1)
    return op.Resize(X, None, _scales(op, node, "temporal", "height", "width"), **NEAREST)


@lowering("UpsampleBilinear")
def upsample_bilinear(op: Emitter, node: Operator) -> ir.Value:
    """Y is X drawn larger, its corners at the corners; always in the order NCHW."""
    (X,) = node.tensors(1)
    return op.Resize(X, None, _scales(op, node, "height", "width"), **BILINEAR)


replayed_gradient("dY0 X0 X1?", "X0", "ResizeNearest", "ResizeNearest3D", "UpsampleBilinear")


@lowering("Im2Col")
def im_to_col(op: Emitter, node: Operator) -> ir.Value:
    """Y has what each window of X reads as one column: [channel, kernel_h, kernel_w] along C.

    In the order NHWC a column lies along the last axis, as [kernel_h, kernel_w, channel].
    """
    planes, window = to_nchw(op, node, *node.tensors(1)), plane_window(node)
    columns, rows = unfold(op, planes, window), op.Mul(op.dim(planes, 1), prod(window.kernel))
    if is_nhwc(node):
        lines = op.Transpose(columns, perm=[0, 3, 4, 2, 1])
        return op.Reshape(lines, op.Concat([0, 0, 0], rows, axis=0))
    return op.Reshape(columns, op.Concat([0], rows, op.Shape(columns, start=3), axis=0))


@lowering("Col2Im")
def col_to_im(op: Emitter, node: Operator) -> ir.Value:
    """Y adds up the columns X of windows at the places that they were read from."""
    X, image = node.tensors(2)
    planes, window = to_nchw(op, node, image), plane_window(node)
    if is_nhwc(node):
        apart = op.Concat([0, 0, 0, prod(window.kernel)], op.dim(planes, 1), axis=0)
        X = op.Transpose(op.Reshape(X, apart), perm=[0, 4, 3, 1, 2])
    return from_nchw(op, node, fold(op, X, planes, window))


@gradient_operator("Im2Col")
def im_to_col_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = Col2Im(dY, X)."""
    return grad.emit("Col2Im", [dys[0], op.input[0]], of=op.input, like=op)


@gradient_operator("Col2Im")
def col_to_im_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = Im2Col(dY); the image gives its shape alone."""
    return [*grad.emit("Im2Col", dys, of=op.input[:1], like=op), None]


@lowering("IntegralImage")
def integral_image(op: Emitter, node: Operator) -> ir.Value:
    """Y[h,w] = Σ X over all rows before h and all columns before w."""
    (X,) = node.tensors(1)
    return op.CumSum(op.CumSum(padded(op, X, [1, 1, 0, 0], [2, 3]), 2), 3)
