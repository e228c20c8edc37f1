"""What operators of several families need to know of the shapes of their inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator
from whileback.caffe2.reading.emitter import MOST_AXES, Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.graph.shapes import rank

__all__ = [
    "LARGEST_COUNT",
    "MOST_AXES",
    "MOST_ELEMENTS",
    "axis_argument",
    "axis_within",
    "channel_axis",
    "check_size",
    "checked_count",
    "count_argument",
    "known_rank",
    "matrix",
]

# A few bytes of a net can ask for any number of elements; of more than these none is made.
MOST_ELEMENTS = 2**31
# More rows, channels or repetitions at one place of a net than any that was ever made.
LARGEST_COUNT = 2**24


def known_rank(node: Operator, value: ir.Value) -> int:
    """Return the rank of an input.

    Raises: NetDefError if it is not known.
    """
    found = rank(value)
    if found is None:
        blobs = zip(node.proto.input, node.inputs, strict=True)
        blob = next((name for name, each in blobs if each is value), value.name)
        raise NetDefError(
            f"{label(node.proto)} needs the rank of blob '{blob}', which is not known. "
            f"Give its shape with --input {blob}=…"
        )
    return found


def axis_within(node: Operator, axis: int, rank: int) -> int:
    """Return an axis counted from the front, where a negative one counts from the back.

    Raises: NetDefError if there is no such axis.
    """
    if not -rank <= axis < rank:
        raise NetDefError(f"{label(node.proto)} has axis {axis} for a tensor of rank {rank}.")
    return axis % rank


def axis_argument(
    node: Operator, value: ir.Value, name: str = "axis", default: int = 1, end: bool = False
) -> int:
    """Return an argument that names an axis of an input, counted from the front.

    Args:
        node: the operator.
        value: the input.
        name: the argument's name.
        default: what holds without the argument.
        end: whether the axis may also be the one behind the last, as for Flatten.

    Raises: NetDefError if there is no such axis, or if a negative one has to be counted from the
        back of an input whose rank is not known.
    """
    axis = node.args.int(name, default)
    if axis >= 0 and rank(value) is None:
        return axis
    found = known_rank(node, value)
    return axis if end and axis == found else axis_within(node, axis, found)


def matrix(op: Emitter, value: ir.Value, axis: int) -> ir.Value:
    """Return the value with the axes before `axis` as one, and those from there on as another."""
    return value if rank(value) == 2 and axis in (1, -1) else op.Flatten(value, axis=axis)


def count_argument(node: Operator, name: str, default: int | None = None, least: int = 1) -> int:
    """Return an argument that counts something.

    Raises: NetDefError if it is less than `least`, or absurdly large.
    """
    return checked_count(node, name, node.args.int(name, default), least)


def checked_count(node: Operator, name: str, count: int, least: int = 1) -> int:
    """Return a number that an argument holds, as `count_argument` does."""
    if count < least:
        raise NetDefError(f"{label(node.proto)} has '{name}' {count}; it must be {least} or more.")
    if count > LARGEST_COUNT:
        raise NetDefError(
            f"{label(node.proto)} has '{name}' {count}; the limit is {LARGEST_COUNT}."
        )
    return count


def channel_axis(node: Operator) -> int:
    """Return the axis of the channels of images: 1 for `order` "NCHW", 3 for "NHWC".

    Raises: NetDefError for another order.
    """
    order = node.args.string("order", "NCHW")
    if order not in ("NCHW", "NHWC", "nchw", "nhwc"):
        raise NetDefError(f"{label(node.proto)} has order '{order}', not 'NCHW' or 'NHWC'.")
    return 1 if order in ("NCHW", "nchw") else 3


def check_size(node: Operator, shape: Sequence[int]) -> None:
    """Refuse a result that no computer should be asked for.

    Raises: NetDefError if a dimension is negative, or if there are more than MOST_ELEMENTS, or
        more axes than a tensor can have.
    """
    if len(shape) > MOST_AXES:
        raise NetDefError(
            f"{label(node.proto)} would make a tensor of {len(shape)} axes; the limit is "
            f"{MOST_AXES}. Correct the shape."
        )
    if any(dim < 0 for dim in shape):
        raise NetDefError(f"{label(node.proto)} has a negative dimension in shape {list(shape)}.")
    if math.prod(shape) > MOST_ELEMENTS:
        raise NetDefError(
            f"{label(node.proto)} would make {math.prod(shape)} elements, shape {list(shape)}; "
            f"the limit is {MOST_ELEMENTS}. Correct the shape, or give the blob as an input."
        )
