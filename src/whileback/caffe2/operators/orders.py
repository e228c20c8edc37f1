"""The two orders of the axes of images: NCHW, which is ONNX's, and NHWC."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator
from whileback.caffe2.operators.shapes import channel_axis, known_rank
from whileback.caffe2.reading.emitter import Emitter

__all__ = ["channels_first", "channels_last", "from_nchw", "is_nhwc", "to_nchw"]


def is_nhwc(node: Operator) -> bool:
    """Tell whether the operator has the channels of its images in the last axis.

    Raises: NetDefError for an `order` that there is not.
    """
    return channel_axis(node) != 1


def to_nchw(op: Emitter, node: Operator, value: ir.Value) -> ir.Value:
    """Return images, or filters, in the operator's order in the order NCHW."""
    return channels_first(op, node, value) if is_nhwc(node) else value


def from_nchw(op: Emitter, node: Operator, value: ir.Value) -> ir.Value:
    """Return images, or filters, in the order NCHW in the operator's order."""
    return channels_last(op, node, value) if is_nhwc(node) else value


def channels_first(op: Emitter, node: Operator, value: ir.Value) -> ir.Value:
    """Move the last axis behind the first."""
    last = known_rank(node, value) - 1
    return op.Transpose(value, perm=[0, last, *range(1, last)])


def channels_last(op: Emitter, node: Operator, value: ir.Value) -> ir.Value:
    """Move the second axis behind the last."""
    return op.Transpose(value, perm=[0, *range(2, known_rank(node, value)), 1])
