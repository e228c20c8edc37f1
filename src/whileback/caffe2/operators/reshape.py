"""Shapes as data, and other shapes for the same elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.operators.shapes import axis_argument, axis_within, known_rank, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.constants import known_ints
from whileback.graph.shapes import describe, size, static_shape


@lowering("Shape")
def shape(op: Emitter, node: Operator) -> ir.Value:
    """Y = the sizes of X, along `axes` if there are any."""
    (X,) = node.tensors(1)
    axes = node.args.ints("axes", [])
    if not axes:
        return op.shape_of(X)
    rank = known_rank(node, X)
    return op.Concat(*(op.dim(X, axis_within(node, axis, rank)) for axis in axes), axis=0)


@lowering("Reshape")
def reshape(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = X in another shape, in which 0 keeps a size and -1 stands for the rest; X's old shape."""
    (X,) = node.tensors(1)
    given = node.optional(1)
    old = op.shape_of(X)
    if given is None:
        shape = op.constant(np.array(node.args.ints("shape"), np.int64))
        return [_reshaped(op, node, X, shape), old]
    if node.args.has("shape"):
        raise NetDefError(
            f"{label(node.proto)} has the argument 'shape' and the shape as input "
            f"'{node.proto.input[1]}'. Drop one."
        )
    return [_reshaped(op, node, X, op.cast(given, ir.DataType.INT64)), op.cast(old, given)]


def _reshaped(op: Emitter, node: Operator, X: ir.Value, shape: ir.Value) -> ir.Value:
    """Return X in another shape; what has no elements keeps zeros as they are."""
    target, dims = known_ints(shape), static_shape(X)
    if size(X) == 0:
        return op.Reshape(X, op.Max(shape, 0), allowzero=1)
    if target is not None and dims is not None and not _fits(target, dims):
        raise NetDefError(
            f"{label(node.proto)} cannot give {math.prod(dims)} elements of shape {list(dims)} the "
            f"shape {target}."
        )
    return op.Reshape(X, shape)


def _fits(target: Sequence[int], dims: Sequence[int]) -> bool:
    """Tell whether a shape, with its 0 and -1, is one for as many elements as `dims` has."""
    if 0 in target[len(dims) :] or min(target, default=0) < -1 or target.count(-1) > 1:
        return False
    named = math.prod(dims[k] if dim == 0 else dim for k, dim in enumerate(target) if dim != -1)
    return math.prod(dims) % named == 0 if -1 in target else math.prod(dims) == named


@gradient_operator("Reshape")
def reshape_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = dY in X's shape."""
    if len(op.output) < 2:
        return as_before_maker(grad, op, dys)
    names = [f"{op.input[0]}_grad", f"_{op.input[0]}_grad_dims"]
    dX, _ = grad.add_all("Reshape", [dys[0], op.output[1]], names)
    return [dX, *[None] * (len(op.input) - 1)]


@lowering("ResizeLike")
def resize_like(op: Emitter, node: Operator) -> ir.Value:
    """Y = the first input in the shape of the second."""
    X, like = node.tensors(2)
    elements = size(X), size(like)
    if None not in elements and elements[0] != elements[1]:
        raise NetDefError(
            f"{label(node.proto)} cannot give {describe(X)} the shape of {describe(like)}."
        )
    return op.reshape(X, like)


@lowering("Flatten")
def flatten(op: Emitter, node: Operator) -> ir.Value:
    """Y = X as a matrix; the axes before `axis` become its first one."""
    (X,) = node.tensors(1)
    return matrix(op, X, axis_argument(node, X, end=True))


@lowering("FlattenToVec")
def flatten_to_vec(op: Emitter, node: Operator) -> ir.Value:
    """Y = X as a vector."""
    (X,) = node.tensors(1)
    return op.Reshape(X, [-1])


@lowering("MergeDim")
def merge_dim(op: Emitter, node: Operator) -> ir.Value:
    """Y = X with its first two axes as one."""
    (X,) = node.tensors(1)
    rank = known_rank(node, X)
    axis_within(node, 1, rank)
    return op.Reshape(X, op.Concat([-1], *(op.dim(X, axis) for axis in range(2, rank)), axis=0))


@gradient_operator("ResizeLike", "Flatten", "FlattenToVec", "MergeDim")
def as_before_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = dY in X's shape."""
    X = op.input[0]
    dX = grad.add("ResizeLike", [dys[0], X], f"{X}_grad")
    return [dX, *[None] * (len(op.input) - 1)]


@lowering("PrependDim")
def prepend_dim(op: Emitter, node: Operator) -> ir.Value:
    """Y = X with its first axis as two, the first of them of size `dim_size`."""
    (X,) = node.tensors(1)
    count = node.args.int("dim_size")
    first = None if X.shape is None else X.shape[0]
    if count < 1 or (isinstance(first, int) and first % count):
        raise NetDefError(
            f"{label(node.proto)} cannot divide {first} elements along the first axis by "
            f"'dim_size' {count}."
        )
    rest = (op.dim(X, axis) for axis in range(1, known_rank(node, X)))
    return op.Reshape(X, op.Concat([count, -1], *rest, axis=0))


@gradient_operator("PrependDim")
def prepend_dim_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY with its first two axes as one."""
    return [grad.add("MergeDim", dys, f"{op.input[0]}_grad")]


@lowering("ExpandDims", "Squeeze")
def expand_dims(op: Emitter, node: Operator) -> ir.Value:
    """Y = X with, or without, axes of size 1 where `dims` says."""
    (X,) = node.tensors(1)
    dims = sorted(set(node.args.ints("dims")))
    return op.Unsqueeze(X, dims) if node.type == "ExpandDims" else op.Squeeze(X, dims)


@gradient_operator("ExpandDims", "Squeeze")
def expand_dims_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY without, or with, those axes."""
    other = {"ExpandDims": "Squeeze", "Squeeze": "ExpandDims"}[op.type]
    return grad.emit(other, dys, of=op.input, like=op)


@lowering("Size")
def number_of_elements(op: Emitter, node: Operator) -> ir.Value:
    """Y = the number of the elements of X."""
    (X,) = node.tensors(1)
    return op.Size(X)


@lowering("IsEmpty")
def is_empty(op: Emitter, node: Operator) -> ir.Value:
    """Y = whether X has no elements."""
    (X,) = node.tensors(1)
    return op.Equal(op.Size(X), 0)


@lowering("HasElements")
def has_elements(op: Emitter, node: Operator) -> ir.Value:
    """Y = whether any input has elements."""
    total = op.add(*(op.Size(X) for X in node.tensors(len(node.inputs))))
    return op.Greater(total, 0)


not_differentiable("it tells of shapes", "HasElements", "IsEmpty", "Shape", "Size")
