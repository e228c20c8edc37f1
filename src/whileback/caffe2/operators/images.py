"""Operators on images: normalization beside channels, padding, resizing, columns of windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.orders import from_nchw, is_nhwc, to_nchw
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.operators.windows import fold, padded, per_axis, plane_window, unfold
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import describe, same_shape

NEAREST = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
BILINEAR = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}


def _normalized(op: Emitter, node: Operator, X: ir.Value) -> list[ir.Value]:
    """Return Y and S; S is a convolution along the axis of the channels alone."""
    size, nhwc = node.args.int("size"), is_nhwc(node)
    if size < 1:
        raise NetDefError(f"{label(node.proto)} has size {size}; it must be positive.")
    share = node.args.float("alpha", 0.0) / size
    before, after = (size - 1) // 2, size // 2
    weight = op.constant(np.full((1, 1, size, 1), share), X.dtype)
    bias = op.constant([node.args.float("bias", 1.0)], X.dtype)
    target = [[-1, 1], op.dim(X, -1), [1]] if nhwc else [[0, 1], op.dim(X, 1), [-1]]
    squares = op.Reshape(op.Mul(X, X), op.Concat(*target, axis=0))
    S = op.reshape(op.Conv(squares, weight, bias, pads=[before, 0, after, 0]), X)
    return [op.Mul(X, op.Pow(S, -node.args.float("beta", 0.0))), S]


@lowering("LRN")
def lrn(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = X/S^beta, S = bias + alpha/size·Σ X² over `size` channels beside; both are outputs."""
    return _normalized(op, node, *node.tensors(1))


@lowering("LRNGradient")
def lrn_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradient of X, from X, Y and dY."""
    X, _, dY = node.tensors(3)
    return op.pullback(lambda op, X: _normalized(op, node, X), [X], [dY])


@gradient_operator("LRN")
def lrn_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = LRNGradient(X, Y, dY)."""
    inputs = [op.input[0], op.output[0], dys[0]]
    return grad.emit("LRNGradient", inputs, of=op.input, like=op)


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


def _scales(node: Operator, *sides: str) -> list[float]:
    scales = [node.args.float(f"{side}_scale", 1.0) for side in sides]
    if min(scales) <= 0:
        raise NetDefError(f"{label(node.proto)} has scales {scales}; they must be positive.")
    return scales


def _resized(
    op: Emitter, X: ir.Value, scales: ir.Value | Sequence[float], how: dict[str, str]
) -> ir.Value:
    """Return images NCHW in another size; the scales are those of the last axes."""
    if not isinstance(scales, ir.Value):
        scales = op.constant(scales, ir.DataType.FLOAT)
    ones = op.constant([1.0, 1.0], scales.dtype)
    return op.Resize(X, None, op.Concat(ones, scales, axis=0), **how)


def _nearest(op: Emitter, node: Operator, X: ir.Value, given: ir.Value | None) -> ir.Value:
    scales = given or _scales(node, "height", "width")
    planes = to_nchw(op, node, X)
    Y = _resized(op, planes, scales, NEAREST)
    if same_shape(planes, Y) and scales != [1.0, 1.0]:
        raise UnsupportedError(
            f"{label(node.proto)} has scales {scales}, which leave the size of its images as it "
            "is. Make them 1 or larger, or leave the operator away."
        )
    return from_nchw(op, node, Y)


@lowering("ResizeNearest")
def resize_nearest(op: Emitter, node: Operator) -> ir.Value:
    """Y[h,w] = X[⌊h/height_scale⌋, ⌊w/width_scale⌋]; both scales may be the second input."""
    return _nearest(op, node, *node.tensors(1), node.optional(1))


@lowering("ResizeNearestGradient")
def resize_nearest_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradient of X, from dY, X and the scales."""
    dY, X = node.tensors(2)
    return op.pullback(lambda op, X: _nearest(op, node, X, node.optional(2)), [X], [dY])


def _nearest_3d(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    return _resized(op, X, _scales(node, "temporal", "height", "width"), NEAREST)


@lowering("ResizeNearest3D")
def resize_nearest_3d(op: Emitter, node: Operator) -> ir.Value:
    """Y[t,h,w] = X[⌊t/temporal_scale⌋, ⌊h/height_scale⌋, ⌊w/width_scale⌋]."""
    return _nearest_3d(op, node, *node.tensors(1))


@lowering("ResizeNearest3DGradient")
def resize_nearest_3d_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradient of X, from dY and X."""
    dY, X = node.tensors(2)
    return op.pullback(lambda op, X: _nearest_3d(op, node, X), [X], [dY])


def _bilinear(op: Emitter, node: Operator, X: ir.Value, given: ir.Value | None) -> ir.Value:
    return _resized(op, X, given or _scales(node, "height", "width"), BILINEAR)


@lowering("UpsampleBilinear")
def upsample_bilinear(op: Emitter, node: Operator) -> ir.Value:
    """Y is X drawn larger, its corners at the corners; always in the order NCHW."""
    return _bilinear(op, node, *node.tensors(1), node.optional(1))


@lowering("UpsampleBilinearGradient")
def upsample_bilinear_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradient of X, from dY, X and the scales."""
    dY, X = node.tensors(2)
    return op.pullback(lambda op, X: _bilinear(op, node, X, node.optional(2)), [X], [dY])


@gradient_operator("ResizeNearest", "ResizeNearest3D", "UpsampleBilinear")
def resize_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = ResizeNearestGradient(dY, X, scales), and so on; none for the scales."""
    dX = grad.emit(f"{op.type}Gradient", [dys[0], *op.input], of=op.input[:1], like=op)
    return [*dX, *(None for _ in op.input[1:])]


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
