"""Operators on images: normalization beside channels, padding, resizing, columns of windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.orders import from_nchw, is_nhwc, to_nchw
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.operators.windows import fold, padded, per_axis, plane_window, unfold
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
    """Y = X/S^beta, S = bias + alpha/size·Σ X² over `size` channels beside; both are outputs.

    S is a convolution along the axis of the channels alone.
    """
    (X,), size, nhwc = node.tensors(1), node.args.int("size"), is_nhwc(node)
    if size < 1:
        raise NetDefError(f"{label(node.proto)} has size {size}; it must be positive.")
    before, after = (size - 1) // 2, size // 2
    share = np.full((1, 1, size, 1), node.args.float("alpha", 0.0) / size)
    bias = op.constant([node.args.float("bias", 1.0)], X.dtype)
    target = [[-1, 1], op.dim(X, -1), [1]] if nhwc else [[0, 1], op.dim(X, 1), [-1]]
    squares = op.Reshape(op.Mul(X, X), op.Concat(*target, axis=0))
    sums = op.Conv(squares, op.constant(share, X.dtype), bias, pads=[before, 0, after, 0])
    S = op.reshape(sums, X)
    return [op.Mul(X, op.Pow(S, -node.args.float("beta", 0.0))), S]


replayed_gradient("X0 Y0 dY0", "X0", "LRN")


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
    """Return the scales of the last axes: from the second input, or from the arguments."""
    given = node.optional(1)
    if given is not None:
        return given
    scales = [node.args.float(f"{side}_scale", 1.0) for side in sides]
    if min(scales) <= 0:
        raise NetDefError(f"{label(node.proto)} has scales {scales}; they must be positive.")
    return op.constant(scales, ir.DataType.FLOAT)


def _resized(op: Emitter, X: ir.Value, scales: ir.Value, how: dict[str, str]) -> ir.Value:
    """Return images in the order NCHW in another size."""
    ones = op.constant([1.0, 1.0], scales.dtype)
    return op.Resize(X, None, op.Concat(ones, scales, axis=0), **how)


@lowering("ResizeNearest")
def resize_nearest(op: Emitter, node: Operator) -> ir.Value:
    """Y[h,w] = X[⌊h/height_scale⌋, ⌊w/width_scale⌋]; both scales may be the second input."""
    X = to_nchw(op, node, *node.tensors(1))
    scales = _scales(op, node, "height", "width")
    Y, known = _resized(op, X, scales, NEAREST), known_floats(scales)
    if same_shape(X, Y) and known not in (None, [1.0, 1.0]):
        raise UnsupportedError(
            f"{label(node.proto)} has scales {known}, which leave the size of its images as it "
            "is. Make them 1 or larger, or leave the operator away."
        )
    return from_nchw(op, node, Y)


@lowering("ResizeNearest3D")
def resize_nearest_3d(op: Emitter, node: Operator) -> ir.Value:
    """Y[t,h,w] = X[⌊t/temporal_scale⌋, ⌊h/height_scale⌋, ⌊w/width_scale⌋]."""
    (X,) = node.tensors(1)
    return _resized(op, X, _scales(op, node, "temporal", "height", "width"), NEAREST)


@lowering("UpsampleBilinear")
def upsample_bilinear(op: Emitter, node: Operator) -> ir.Value:
    """Y is X drawn larger, its corners at the corners; always in the order NCHW."""
    (X,) = node.tensors(1)
    return _resized(op, X, _scales(op, node, "height", "width"), BILINEAR)


replayed_gradient("dY0 X0 X1?", "X0", "ResizeNearest", "ResizeNearest3D", "UpsampleBilinear")


@lowering("Im2Col")
def im_to_col(op: Emitter, node: Operator) -> ir.Value:
    """Y has what each window of X reads as one column: [channel, kernel_h, kernel_w] along C.

    In the order NHWC a column lies along the last axis, as [kernel_h, kernel_w, channel].
    """
    planes, window = to_nchw(op, node, *node.tensors(1)), plane_window(node)
    columns = unfold(op, planes, window)
    if is_nhwc(node):
        return op.Reshape(op.Transpose(columns, perm=[0, 4, 5, 2, 3, 1]), [0, 0, 0, -1])
    return op.Reshape(columns, op.Concat([0, -1], op.Shape(columns, start=4), axis=0))


@lowering("Col2Im")
def col_to_im(op: Emitter, node: Operator) -> ir.Value:
    """Y adds up the columns X of windows at the places that they were read from."""
    X, image = node.tensors(2)
    planes, window = to_nchw(op, node, image), plane_window(node)
    if is_nhwc(node):
        apart = op.Concat([0, -1, *window.kernel], op.dim(planes, 1), axis=0)
        X = op.Transpose(op.Reshape(X, apart), perm=[0, 4, 2, 3, 1])
    return from_nchw(op, node, fold(op, X, planes, window))


@gradient_operator("Im2Col")
def im_to_col_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = Col2Im(dY, X)."""
    return grad.emit("Col2Im", [dys[0], op.input[0]], of=op.input, like=op)


@gradient_operator("Col2Im")
def col_to_im_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = Im2Col(dY); the image gives its shape alone."""
    return [*grad.emit("Im2Col", dys, of=op.input[:1], like=op), None]
