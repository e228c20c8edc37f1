"""Sums, means, extremes and norms along axes."""

from __future__ import annotations

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
from whileback.caffe2.operators.shapes import MOST_AXES, axis_within, known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import is_float, rank


def _kind(node: Operator) -> str:
    """Return how an operator reduces: "Sum", "Mean" or "Max"."""
    return next(kind for kind in ("Sum", "Mean", "Max") if kind in node.type)


def _end_axes(node: Operator, X: ir.Value) -> list[int]:
    """Return the axes at the front, or at the back, that are reduced."""
    rank, count = known_rank(node, X), node.args.int("num_reduce_dim", 1)
    if not 0 <= count <= rank:
        raise NetDefError(
            f"{label(node.proto)} has 'num_reduce_dim' {count} for a tensor of rank {rank}."
        )
    return list(range(count)) if "Front" in node.type else list(range(rank - count, rank))


def _length_axis(node: Operator, X: ir.Value) -> int:
    """Return the only axis that is reduced where lengths are given."""
    axes = _end_axes(node, X)
    if len(axes) != 1:
        raise NetDefError(
            f"{label(node.proto)} has lengths, so it can reduce one axis, not {len(axes)}. Remove "
            "'num_reduce_dim'."
        )
    return axes[0]


@lowering(
    "ReduceBackMax",
    "ReduceBackMean",
    "ReduceBackSum",
    "ReduceFrontMax",
    "ReduceFrontMean",
    "ReduceFrontSum",
)
def reduce_end(op: Emitter, node: Operator) -> ir.Value:
    """Y = the sum, the mean or the largest of X along the first or the last axes."""
    return _reduce_end(op, node, node.tensors(1)[0], node.optional(1))


def _reduce_end(op: Emitter, node: Operator, X: ir.Value, lengths: ir.Value | None) -> ir.Value:
    if lengths is not None:
        return _reduce_beginnings(op, node, X, lengths)
    kind, axes = _kind(node), _end_axes(node, X)
    if not axes:
        return op.Identity(X)
    if kind == "Mean" and not is_float(X):
        total = op.ReduceSum(X, axes, keepdims=0)
        return op.Div(total, op.cast(op.Div(op.Size(X), op.Size(total)), X))
    return op.emit(f"Reduce{kind}", [X, axes], {"keepdims": 0})[0]


def _reduce_beginnings(op: Emitter, node: Operator, X: ir.Value, lengths: ir.Value) -> ir.Value:
    """Reduce as many elements along the axis as the length says; the mean of none is 0.

    The largest of none is the first element.
    """
    kind, axis = _kind(node), _length_axis(node, X)
    lengths = _beside(op, node, X, lengths)
    if kind == "Max":
        inside = _inside(op, node, X, op.Max(lengths, 1))
        lowest = op.constant(-np.inf, X.dtype)
        return op.ReduceMax(op.Where(inside, X, lowest), [axis], keepdims=0)
    zero = op.constant(0, X.dtype)
    inside = _inside(op, node, X, lengths)
    total = op.ReduceSum(op.Where(inside, X, zero), [axis], keepdims=0)
    if kind == "Sum":
        return total
    return op.Div(total, op.cast(op.Squeeze(op.Max(lengths, 1), [axis]), X))


def _beside(op: Emitter, node: Operator, X: ir.Value, lengths: ir.Value) -> ir.Value:
    """Return the lengths in the shape of X, but of size 1 along the axis that is reduced."""
    dims = [op.dim(X, axis) for axis in range(known_rank(node, X))]
    dims[_length_axis(node, X)] = op.constant([1])
    return op.Reshape(op.cast(lengths, ir.DataType.INT64), op.Concat(*dims, axis=0))


def _inside(op: Emitter, node: Operator, X: ir.Value, lengths: ir.Value) -> ir.Value:
    """Tell which elements of X are within the lengths."""
    axis = _length_axis(node, X)
    others = [each for each in range(known_rank(node, X)) if each != axis]
    places = op.arange(op.dim(X, axis))
    return op.Less(op.Unsqueeze(places, others) if others else places, lengths)


@lowering(
    "ReduceBackMeanGradient",
    "ReduceBackSumGradient",
    "ReduceFrontMeanGradient",
    "ReduceFrontSumGradient",
)
def reduce_end_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY for each of the elements, divided by their number for a mean."""
    dY, X = node.tensors(2)
    lengths = node.optional(2)
    return op.pullback(lambda op, X: _reduce_end(op, node, X, lengths), [X], [dY])


@lowering("ReduceBackMaxGradient", "ReduceFrontMaxGradient")
def reduce_end_max_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where X is the largest: for each of several equal ones."""
    dY, X, Y = node.tensors(3)
    axes, lengths = _end_axes(node, X), node.optional(3)
    chosen = op.Equal(X, op.Unsqueeze(Y, axes))
    if lengths is not None:
        chosen = op.And(chosen, _inside(op, node, X, _beside(op, node, X, lengths)))
    return op.Where(chosen, op.Unsqueeze(dY, axes), op.constant(0, X.dtype))


@gradient_operator("ReduceBackMean", "ReduceBackSum", "ReduceFrontMean", "ReduceFrontSum")
def reduce_end_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = …Gradient(dY, X, the lengths if there are any)."""
    X, *lengths = op.input
    found = grad.emit(f"{op.type}Gradient", [dys[0], X, *lengths], of=[X], like=op)
    return [*found, *[None] * len(lengths)]


@gradient_operator("ReduceBackMax", "ReduceFrontMax")
def reduce_end_max_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = …Gradient(dY, X, Y, the lengths if there are any)."""
    X, *lengths = op.input
    inputs = [dys[0], X, op.output[0], *lengths]
    found = grad.emit(f"{op.type}Gradient", inputs, of=[X], like=op)
    return [*found, *[None] * len(lengths)]


@lowering("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
def reduce(op: Emitter, node: Operator) -> ir.Value:
    """Y = the reduction of X over `axes`, over all of them by default."""
    return _reduce(op, node, node.tensors(1)[0])


def _reduce(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    axes, keep = _axes(node, rank(X)), node.args.bool("keepdims", True)
    op_type = node.type.removesuffix("Gradient")
    return op.emit(op_type, [X, axes or None], {"keepdims": int(keep)})[0]


def _axes(node: Operator, known: int | None) -> list[int]:
    """Return the axes that are reduced, counted from the front if the rank of X is known.

    Raises: NetDefError if there is no such axis, or if one is named twice.
    """
    axes = node.args.ints("axes", [])
    if known is not None:
        axes = [axis_within(node, axis, known) for axis in axes]
    if len(set(axes)) < len(axes) or len(axes) > MOST_AXES:
        raise NetDefError(
            f"{label(node.proto)} has {len(axes)} numbers in 'axes', among which one is named "
            f"twice, or which are more than {MOST_AXES}. Name each axis once."
        )
    return axes


@lowering("ReduceL1Gradient", "ReduceMeanGradient", "ReduceSumGradient")
def reduce_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX from dY and X by ONNX's rules: dX = dY, dY divided by the number, or dY·sign X."""
    dY, X = node.tensors(2)
    return op.pullback(lambda op, X: _reduce(op, node, X), [X], [dY])


@lowering("ReduceMaxGradient", "ReduceMinGradient")
def reduce_max_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where X is the largest (smallest): for each of several equal ones."""
    dY, X, Y = node.tensors(3)
    chosen = op.Equal(X, _kept(op, node, X, Y))
    return op.Where(chosen, _kept(op, node, X, dY), op.constant(0, X.dtype))


@lowering("ReduceL2Gradient")
def reduce_l2_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·X/Y, 0 where all X are."""
    dY, X, Y = node.tensors(3)
    dY, Y = _kept(op, node, X, dY), _kept(op, node, X, Y)
    slope = op.Where(op.Equal(Y, 0.0), op.constant(0, X.dtype), op.Div(dY, Y))
    return op.Mul(slope, X)


def _kept(op: Emitter, node: Operator, X: ir.Value, reduced: ir.Value) -> ir.Value:
    """Return a result with the axes of X that were reduced, of size 1."""
    axes = _axes(node, rank(X))
    keep = node.args.bool("keepdims", True) or not axes
    return reduced if keep else op.Unsqueeze(reduced, axes)


@gradient_operator("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
def reduce_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = …Gradient(dY, X, Y)."""
    (X,) = op.input
    return grad.emit(f"{op.type}Gradient", [dys[0], X, op.output[0]], of=[X], like=op)


@lowering("ColwiseMax", "RowwiseMax")
def matrix_max(op: Emitter, node: Operator) -> ir.Value:
    """Y = the largest of each column, or row, of the matrices in X."""
    (X,) = node.tensors(1)
    if known_rank(node, X) != 3:
        raise NetDefError(
            f"{label(node.proto)} needs a tensor of rank 3, not {known_rank(node, X)}."
        )
    return op.ReduceMax(X, _matrix_axis(node), keepdims=0)


def _matrix_axis(node: Operator) -> list[int]:
    return [1] if node.type.startswith("Colwise") else [2]


@lowering("ColwiseMaxGradient", "RowwiseMaxGradient")
def matrix_max_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where X is the largest: for each of several equal ones."""
    X, Y, dY = node.tensors(3)
    axis = _matrix_axis(node)
    chosen = op.Equal(X, op.Unsqueeze(Y, axis))
    return op.Where(chosen, op.Unsqueeze(dY, axis), op.constant(0, X.dtype))


@gradient_operator("ColwiseMax", "RowwiseMax")
def matrix_max_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = …Gradient(X, Y, dY)."""
    (X,) = op.input
    return grad.emit(f"{op.type}Gradient", [X, op.output[0], dys[0]], of=[X], like=op)


@lowering("Summarize")
def summarize(op: Emitter, node: Operator) -> ir.Value:
    """Y = the smallest X, the largest, the mean and the deviation √(Σ(X - mean)²/(n - 1))."""
    (X,) = node.tensors(1)
    mean = op.ReduceMean(X, keepdims=0)
    others = op.Max(op.Sub(op.Size(X), 1), 1)
    variance = op.Div(op.ReduceSumSquare(op.Sub(X, mean), keepdims=0), op.cast(others, X))
    found = [op.ReduceMin(X, keepdims=0), op.ReduceMax(X, keepdims=0), mean, op.Sqrt(variance)]
    return op.Concat(*(op.Reshape(each, [1]) for each in found), axis=0)


not_differentiable("it describes a tensor for people", "Summarize")
