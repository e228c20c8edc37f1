"""The gradient of Resize: it is linear along each axis, and tells its own matrices."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.definition import by_definition
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.tensor.resampling import (
    given_scales,
    rank_of,
    resampled,
    resized_axes,
)
from whileback.graph.builder import Operand
from whileback.graph.constants import known_floats, known_ints
from whileback.graph.shapes import describe, same_dim

# What a matrix does not share with the operator: it has its own axes, and its rest is zero.
_NOT_OF_MATRIX = ("axes", "extrapolation_value", "keep_aspect_ratio_policy")


@rule("Resize")
def resize(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Sequence[ir.Value | None]:
    """Y is X times a matrix W along every axis, so dX is dY times every Wᵀ.

    W is what the same Resize makes of the unit matrix, whatever its mode and its coordinates. The
    scales and the region have gradients as well, by way of the points where X is sampled; not
    where the nearest pixel is taken. Linear samples have the slope to the right at a pixel.
    """
    _check(node)
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    kept = policy != "stretch"
    nearest = node.attributes.get_string("mode", "nearest") == "nearest"
    gradients: list[ir.Value | None] = [None] * len(node.inputs)
    if kept or (not nearest and any(value in op.active for value in node.inputs[1:])):
        gradients = list(by_definition(op, node, dY, resampled))
    if required(node) in op.active and not kept:
        gradients[0] = _by_matrices(op, node, dY)
    return gradients


def _check(node: ir.Node) -> None:
    if rank_of(node) is None:
        X = required(node)
        raise UnsupportedError(
            f"Node '{node.name}' (Resize) has an input '{X.name}' of unknown rank "
            f"({describe(X)}), and its gradient is written axis by axis. "
            "Declare the shape of the input; its dimensions may be symbols."
        )


def _by_matrices(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    X, dX = required(node), dY
    for index, axis in enumerate(resized_axes(node)):
        if not _keeps(node, index, axis, dY):
            matrix = _matrix(op, node, index, op.dim(X, axis), op.dim(dY, axis))
            dX = _multiply(op, dX, op.CastLike(matrix, dY), axis, rank_of(node) or 0)
    return dX


def _crops(node: ir.Node) -> bool:
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    return mode == "tf_crop_and_resize"


def _keeps(node: ir.Node, index: int, axis: int, dY: ir.Value) -> bool:
    """Tell whether the axis surely stays as it is."""
    X, scales = required(node), given_scales(node)
    if _crops(node) or X.shape is None or dY.shape is None:
        return False
    if scales is None:
        return same_dim(X.shape[axis], dY.shape[axis])
    known = known_floats(scales)
    return known is not None and known[index] == 1.0


def _matrix(
    op: GradientBuilder, node: ir.Node, index: int, before: ir.Value, after: ir.Value
) -> ir.Value:
    """Return Wᵀ of one of the resized axes: what becomes of each unit vector.

    The vectors are images of width 1, made twice as wide: ONNX Runtime 1.32 hands back an image
    whose size stays the same, whatever the scales.
    """
    roi, scales = optional(node, 1), given_scales(node)
    one, two = op.constant([1]), op.constant([2])
    unit = op.EyeLike(op.Expand(op.constant(0, ir.DataType.FLOAT), _joined(op, before, before)))
    sizes = _joined(op, before, one, after, two) if scales is None else None
    if _crops(node):
        roi = _roi(op, required(node, 1), index, len(resized_axes(node)))
    if scales is not None:
        zoom = op.Slice(scales, [index], [index + 1])
        scales = op.Concat(
            op.constant([1, 1], zoom.dtype), zoom, op.constant([2], zoom.dtype), axis=0
        )
    attributes = {k: v for k, v in node.attributes.items() if k not in _NOT_OF_MATRIX}
    images = op.Unsqueeze(unit, [1, 3])
    resized = op.emit("Resize", [images, roi, scales, sizes], attributes)[0]
    return op.Squeeze(op.Gather(resized, 0, axis=3), [1])


def _roi(op: GradientBuilder, roi: ir.Value, index: int, count: int) -> ir.Value:
    """Return the region along the height of an image, all of it along the other axes."""
    start, end = (op.Slice(roi, [k], [k + 1]) for k in (index, index + count))
    parts = []
    for bound, outer in ((start, 0), (end, 1)):
        parts += [op.constant([outer] * 2, roi.dtype), bound, op.constant([outer], roi.dtype)]
    return op.Concat(*parts, axis=0)


def _joined(op: GradientBuilder, *lengths: ir.Value) -> Operand:
    known = [known_ints(length) for length in lengths]
    if None in known:
        return op.Concat(*lengths, axis=0)
    return [number for numbers in known for number in numbers or ()]


def _multiply(
    op: GradientBuilder, dY: ir.Value, matrix: ir.Value, axis: int, rank: int
) -> ir.Value:
    """Return dY with every row along the axis multiplied by Wᵀ."""
    if axis == rank - 2:
        return op.MatMul(matrix, dY)
    matrix = op.Transpose(matrix)
    if axis == rank - 1:
        return op.MatMul(dY, matrix)
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return op.Transpose(op.MatMul(op.Transpose(dY, perm=swap), matrix), perm=swap)
