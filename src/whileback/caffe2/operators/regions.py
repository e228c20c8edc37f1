"""Operators that bring regions of images to one size."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.orders import from_nchw, to_nchw
from whileback.caffe2.operators.registry import Operator, lowering
from whileback.caffe2.operators.shapes import count_argument
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.graph.shapes import describe

MOST_SAMPLES = 1024


@lowering("RoIAlign")
def roi_align(op: Emitter, node: Operator) -> ir.Value:
    """Y[r,c,h,w] = the mean of X over a part of region r, sampled bilinearly at its points."""
    X, rois = node.tensors(2)
    batch, corners = _split(op, node, rois)
    ratio = node.args.int("sampling_ratio", -1)
    if ratio > MOST_SAMPLES:
        raise UnsupportedError(f"it takes {ratio}² samples; the limit is {MOST_SAMPLES}².")
    aligned = node.args.bool("aligned", False)
    Y = op.RoiAlign(
        to_nchw(op, node, X),
        corners,
        batch,
        output_height=count_argument(node, "pooled_h", 1),
        output_width=count_argument(node, "pooled_w", 1),
        sampling_ratio=max(ratio, 0),
        spatial_scale=node.args.float("spatial_scale", 1.0),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )
    return from_nchw(op, node, Y)


def _split(op: Emitter, node: Operator, rois: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the image of each region, 0 where none is named, and the corners of the region."""
    columns = list(rois.shape or ())[1:]
    if columns == [5]:
        batch = op.Squeeze(op.Slice(rois, [0], [1], [1]), [1])
        return op.cast(batch, ir.DataType.INT64), op.Slice(rois, [1], [5], [1])
    if columns == [4]:
        return op.Expand(op.constant(0), op.dim(rois, 0)), rois
    raise NetDefError(
        f"{label(node.proto)} needs regions of 4 or 5 numbers each, but they are "
        f"{describe(rois)}. Give the shape of '{node.proto.input[1]}' with --input."
    )


@lowering("RoIPool")
def roi_pool(op: Emitter, node: Operator) -> ir.Value:
    """Y[r,c,h,w] = the largest element of X in a part of region r; its place is not returned."""
    X, rois = node.tensors(2)
    size = [count_argument(node, name, 1) for name in ("pooled_h", "pooled_w")]
    scale = node.args.float("spatial_scale", 1.0)
    return from_nchw(op, node, op.MaxRoiPool(X, rois, pooled_shape=size, spatial_scale=scale))
