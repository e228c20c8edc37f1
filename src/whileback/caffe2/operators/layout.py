"""Operators that put the elements of tensors and images in another order."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.orders import (
    channels_first,
    channels_last,
    from_nchw,
    is_nhwc,
    to_nchw,
)
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import count_argument, known_rank
from whileback.caffe2.operators.windows import padded, plane_size
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import describe

# What undoes each operator is its gradient as well.
INVERSES = {
    "NCHW2NHWC": "NHWC2NCHW",
    "NHWC2NCHW": "NCHW2NHWC",
    "SpaceToBatch": "BatchToSpace",
    "BatchToSpace": "SpaceToBatch",
    "ChannelShuffle": "ChannelShuffleGradient",
}


@gradient_operator(*INVERSES)
def inverse_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """Y is X in another order, so dX is dY in the first one."""
    return grad.emit(INVERSES[op.type], dys, of=op.input, like=op)


@lowering("Transpose")
def transpose(op: Emitter, node: Operator) -> ir.Value:
    """Y has the axes of X in the order of `axes`, or in the reversed one."""
    (X,) = node.tensors(1)
    axes = node.args.ints("axes", [])
    if sorted(axes) != list(range(len(axes))):
        raise NetDefError(f"{label(node.proto)} has axes {axes}, which are no permutation.")
    return op.Transpose(X, perm=axes or None)


@gradient_operator("Transpose")
def transpose_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = dY with its axes in the inverse order."""
    axes = Arguments(op).ints("axes", [])
    places = {axis: place for place, axis in enumerate(axes)}
    args = {"axes": [places[axis] for axis in range(len(axes))]} if axes else {}
    return grad.add("Transpose", dys, f"{op.input[0]}_grad", **args)


@lowering("NCHW2NHWC")
def nchw_to_nhwc(op: Emitter, node: Operator) -> ir.Value:
    """Y is X with its second axis as the last."""
    return channels_last(op, node, *node.tensors(1))


@lowering("NHWC2NCHW")
def nhwc_to_nchw(op: Emitter, node: Operator) -> ir.Value:
    """Y is X with its last axis as the second."""
    return channels_first(op, node, *node.tensors(1))


@lowering("ChannelShuffle")
def channel_shuffle(op: Emitter, node: Operator) -> ir.Value:
    """Y has the channels [group, rest] of X as [rest, group]."""
    planes, group, rest = _grouped(op, node)
    return _swapped(op, node, planes, [group, rest])


@lowering("ChannelShuffleGradient")
def channel_shuffle_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX has the channels [rest, group] of dY as [group, rest]."""
    planes, group, rest = _grouped(op, node)
    return _swapped(op, node, planes, [rest, group])


def _grouped(op: Emitter, node: Operator) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the images in the order NCHW, the number of groups, and of channels in each."""
    planes, group = to_nchw(op, node, *node.tensors(1)), count_argument(node, "group", 1)
    channels = None if planes.shape is None else planes.shape[1]
    if isinstance(channels, int) and channels % group:
        raise NetDefError(f"{label(node.proto)} has {channels} channels for {group} groups.")
    return planes, op.constant([group]), op.Div(op.dim(planes, 1), [group])


def _swapped(
    op: Emitter, node: Operator, planes: ir.Value, channels: Sequence[ir.Value]
) -> ir.Value:
    plane = plane_size(planes, known_rank(node, planes) - 2)
    apart = op.Reshape(planes, op.Concat([0], *channels, [plane], axis=0))
    swapped = op.Transpose(apart, perm=[0, 2, 1, 3])
    return from_nchw(op, node, op.reshape(swapped, planes))


@lowering("SpaceToBatch")
def space_to_batch(op: Emitter, node: Operator) -> ir.Value:
    """Y[(i,j,n),c,h,w] = X[n,c,block·h + i,block·w + j], of X with its padding."""
    (X,), block = _planes(node), count_argument(node, "block_size", 2)
    blocks = op.SpaceToDepth(padded(op, X, _padding(node), [2, 3]), blocksize=block)
    rest = op.Concat(op.dim(X, 1), op.Shape(blocks, start=2), axis=0)
    apart = op.Reshape(blocks, op.Concat([0, block * block], rest, axis=0))
    swapped = op.Transpose(apart, perm=[1, 0, 2, 3, 4])
    return op.Reshape(swapped, op.Concat([-1], rest, axis=0))


@lowering("BatchToSpace")
def batch_to_space(op: Emitter, node: Operator) -> ir.Value:
    """Y[n,c,block·h + i,block·w + j] = X[(i,j,n),c,h,w], cut by the padding."""
    (X,), block = _planes(node), count_argument(node, "block_size", 2)
    apart = op.Reshape(X, op.Concat([block * block, -1], op.Shape(X, start=1), axis=0))
    swapped = op.Transpose(apart, perm=[1, 0, 2, 3, 4])
    blocks = op.Reshape(swapped, op.Concat([0, -1], op.Shape(X, start=2), axis=0))
    whole = op.DepthToSpace(blocks, blocksize=block)
    return padded(op, whole, [-pad for pad in _padding(node)], [2, 3])


def _planes(node: Operator) -> list[ir.Value]:
    """Return the images, which must be in the order NCHW."""
    (X,) = node.tensors(1)
    if is_nhwc(node) or known_rank(node, X) != 4:
        raise NetDefError(
            f"{label(node.proto)} needs images of rank 4 in the order NCHW, but its input is "
            f"{describe(X)}, in the order {node.args.string('order', 'NCHW')}."
        )
    return [X]


def _padding(node: Operator) -> list[int]:
    """Return the padding at top, left, bottom and right; Caffe2 has `pad_t`, but no `pad_l` …"""
    pad = node.args.int("pad", 0)
    return [node.args.int("pad_t", pad), pad, pad, pad]
