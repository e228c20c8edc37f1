"""Repeating tensors along their axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_within, check_size, known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef, TensorProto
from whileback.graph.constants import known_ints
from whileback.graph.shapes import describe, rank, size, static_shape


def _setting(op: Emitter, node: Operator, index: int, name: str) -> ir.Value:
    """Return a number that an input or an argument gives, as INT64[1]."""
    given = node.optional(index)
    if given is None:
        return op.constant(np.array([node.args.int(name)], np.int64))
    return op.Reshape(op.cast(given, ir.DataType.INT64), [1])


def _repeats(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    """Return how often Tile repeats X along each of its axes: `tiles` times along `axis`."""
    count = known_rank(node, X)
    tiles, axis = _setting(op, node, 1, "tiles"), _setting(op, node, 2, "axis")
    known_tiles, known_axis = known_ints(tiles), known_ints(axis)
    if known_axis is None:
        places = op.Equal(op.constant(np.arange(count)), op.Mod(axis, count))
        return op.Where(places, tiles, 1)
    place = axis_within(node, known_axis[0], count)
    if known_tiles is None:
        ones = [1] * count
        return op.Concat(ones[:place], tiles, ones[place + 1 :], axis=0)
    repeats = np.ones(count, np.int64)
    repeats[place] = known_tiles[0]
    return op.constant(repeats)


def _tiled(op: Emitter, node: Operator, X: ir.Value, repeats: ir.Value) -> ir.Value:
    counts, dims = known_ints(repeats), static_shape(X)
    if counts is not None:
        ones = (1,) * len(counts)
        check_size(node, [a * b for a, b in zip(dims or ones, counts, strict=True)])
    return op.Tile(X, repeats)


@lowering("Tile")
def tile(op: Emitter, node: Operator) -> ir.Value:
    """Y = X, `tiles` times along `axis`."""
    X = node.tensors(1)[0]
    return _tiled(op, node, X, _repeats(op, node, X))


@lowering("TileGradient")
def tile_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = the sum of dY over the repetitions, each an axis of its own beside that of X."""
    dY = node.tensors(1)[0]
    repeats = _repeats(op, node, dY)
    counts, dims = known_ints(repeats), static_shape(dY)
    if counts is None or dims is None:
        sizes = op.Unsqueeze(op.Div(op.shape_of(dY), repeats), [1])
        shape = op.Reshape(op.Concat(op.Unsqueeze(repeats, [1]), sizes, axis=1), [-1])
        axes = list(range(0, 2 * known_rank(node, dY), 2))
        return op.ReduceSum(op.Reshape(dY, shape, allowzero=1), axes, keepdims=0)
    if min(counts) < 1:
        raise NetDefError(f"{label(node.proto)} has 'tiles' {min(counts)}; it must be 1 or more.")
    (axis,) = [axis for axis, count in enumerate(counts) if count > 1] or [0]
    apart = [*dims[:axis], counts[axis], dims[axis] // counts[axis], *dims[axis + 1 :]]
    return op.ReduceSum(op.Reshape(dY, apart, allowzero=1), [axis], keepdims=0)


@gradient_operator("Tile")
def tile_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = TileGradient(dY, the tiles and the axis if they are inputs)."""
    X, *settings = op.input
    return [
        *grad.emit("TileGradient", [dys[0], *settings], of=[X], like=op),
        *[None] * len(settings),
    ]


@lowering("NumpyTile")
def numpy_tile(op: Emitter, node: Operator) -> ir.Value:
    """Y = X, along each axis as often as the second input says."""
    X, repeats = node.tensors(2)
    count = size(repeats)
    if rank(X) is not None and count is not None and rank(X) != count:
        raise NetDefError(
            f"{label(node.proto)} needs a number for each axis of {describe(X)}, but has {count}."
        )
    return _tiled(op, node, X, op.cast(repeats, ir.DataType.INT64))


@gradient_operator("NumpyTile")
def numpy_tile_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = the sum of dY over the repetitions, which the repeated numbers of X's elements tell."""
    X, repeats = op.input
    count = grad.add("Size", [X], f"{X}_size")
    numbers = grad.add("ResizeLike", [grad.add("Range", [count], f"{X}_range"), X], f"{X}_numbers")
    origins = grad.add("NumpyTile", [numbers, repeats], f"{X}_origins")
    origins = grad.add("Cast", [origins], f"{X}_origins", to=TensorProto.INT32)
    flat = [grad.add("FlattenToVec", [blob], f"{blob}_flat") for blob in (dys[0], origins)]
    sums = grad.add("UnsortedSegmentSum", flat, f"{X}_sums")
    return [grad.add("ResizeLike", [sums, X], f"{X}_grad"), None]


@lowering("Expand")
def expand(op: Emitter, node: Operator) -> ir.Value:
    """Y = X broadcast to a shape, in which 1 and -1 leave a size as it is."""
    X, shape = node.tensors(2)
    shape = op.cast(shape, ir.DataType.INT64)
    known = known_ints(shape)
    if known is None:
        return op.Expand(X, op.Abs(shape))
    if min(known, default=0) < -1:
        raise NetDefError(f"{label(node.proto)} cannot broadcast to the shape {known}.")
    known = [abs(dim) for dim in known]
    check_size(node, known)
    return op.Expand(X, known)


@lowering("ExpandGradient")
def expand_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = the sum of dY over the axes along which X was broadcast."""
    dY, X = node.tensors(2)
    return op.unbroadcast(dY, X)


@gradient_operator("Expand")
def expand_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = ExpandGradient(dY, X)."""
    return [*grad.emit("ExpandGradient", [dys[0], op.input[0]], of=op.input[:1], like=op), None]
