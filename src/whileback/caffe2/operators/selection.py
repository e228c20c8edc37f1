"""The places of extremes, and the largest elements."""

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
from whileback.caffe2.operators.shapes import axis_argument, check_size, count_argument
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.constants import known_ints

# ONNX Runtime 1.32 finds extremes in these types; others are cast.
EXTREMES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64})


@lowering("ArgMax", "ArgMin")
def arg_max(op: Emitter, node: Operator) -> ir.Value:
    """Y = the place of the largest (smallest) of X along `axis`, the last one by default."""
    (X,) = node.tensors(1)
    attributes = {"axis": node.args.int("axis", -1), "keepdims": node.args.int("keepdims", 1)}
    comparable = X if X.dtype in EXTREMES else op.cast(X, ir.DataType.DOUBLE)
    return op.emit(node.type, [comparable], attributes)[0]


not_differentiable("it tells places", "ArgMax", "ArgMin")


@lowering("TopK")
def top_k(op: Emitter, node: Operator) -> list[ir.Value]:
    """The k largest of X along an axis, their places along it, and their places in all of X.

    Where there are fewer, zeros at the places -1 follow.
    """
    X = node.tensors(1)[0]
    axis = axis_argument(node, X, default=-1)
    k = _k(op, node)
    check_size(node, known_ints(k) or [])
    values, places = _top_k(op, X, k, axis)
    if len(node.outputs) < 3:
        return [values, places]
    numbers = op.Reshape(op.arange(op.Reshape(op.Size(X), [1])), op.shape_of(X))
    flat = op.GatherElements(numbers, places, axis=axis)
    return [values, places, op.Reshape(op.Where(op.Less(places, 0), -1, flat), [-1])]


def _k(op: Emitter, node: Operator) -> ir.Value:
    given = node.optional(1)
    if given is not None and not node.args.has("k"):
        return op.Reshape(op.cast(given, ir.DataType.INT64), [1])
    return op.constant(np.array([count_argument(node, "k")], np.int64))


def _top_k(op: Emitter, X: ir.Value, k: ir.Value, axis: int) -> list[ir.Value]:
    known = known_ints(k)
    length = None if X.shape is None else X.shape[axis]
    if known is not None and isinstance(length, int) and known[0] <= length:
        return list(op.emit("TopK", [X, k], {"axis": axis}, outputs=2))
    there = op.Min(k, op.dim(X, axis))
    values, places = op.emit("TopK", [X, there], {"axis": axis}, outputs=2)
    missing = op.Concat([0], op.Sub(k, there), axis=0)
    return [
        _resized(op.Pad(values, missing, op.constant(0, X.dtype), [axis]), X, axis, known),
        _resized(op.Pad(places, missing, op.constant(np.int64(-1)), [axis]), X, axis, known),
    ]


def _resized(value: ir.Value, X: ir.Value, axis: int, size: list[int] | None) -> ir.Value:
    """Note that a value has the shape of X, but for the size of an axis."""
    if X.shape is not None and size is not None:
        value.shape = ir.Shape([*X.shape[:axis], *size, *X.shape[axis + 1 :]])
    return value


@lowering("TopKGradient")
def top_k_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY at the places, 0 elsewhere."""
    dY, places, X = node.tensors(3)
    axis = axis_argument(node, X, default=-1)
    there = op.GreaterOrEqual(places, 0)
    dY, places = op.Where(there, dY, op.constant(0, dY.dtype)), op.Where(there, places, 0)
    return op.ScatterElements(op.zeros_like(X), places, dY, axis=axis, reduction="add")


@gradient_operator("TopK")
def top_k_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> list[str | None]:
    """dX = TopKGradient(dY, the places, X)."""
    X, *k = op.input
    if dys[0] is None:
        return [None] * len(op.input)
    found = grad.emit("TopKGradient", [dys[0], op.output[1], X], of=[X], like=op)
    return [*found, *[None] * len(k)]


def _first(op: Emitter, X: ir.Value, counts: ir.Value) -> ir.Value:
    """Tell for each row (along the last axis) of X which of its elements are the first `counts`."""
    return op.Less(op.arange(op.dim(X, -1)), op.Unsqueeze(op.cast(counts, ir.DataType.INT64), [-1]))


@lowering("FlexibleTopK")
def flexible_top_k(op: Emitter, node: Operator) -> list[ir.Value]:
    """The largest of each row of X, as many as its k says, one row after the other."""
    X, k = node.tensors(2)
    ordered = op.emit("TopK", [X, op.dim(X, -1)], {}, outputs=2)
    chosen = op.Reshape(_first(op, X, k), [-1])
    return [op.Compress(op.Reshape(each, [-1]), chosen, axis=0) for each in ordered]


@lowering("FlexibleTopKGradient")
def flexible_top_k_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY at the places, 0 elsewhere."""
    X, k, dY, places = node.tensors(4)
    length = op.dim(X, -1)
    first = op.Reshape(_first(op, X, k), [-1])
    rows = op.Div(op.Squeeze(op.NonZero(first), [0]), length)
    zeros = op.Reshape(op.zeros_like(X), [-1])
    dX = op.ScatterElements(zeros, op.Add(op.Mul(rows, length), places), dY)
    return op.reshape(dX, X)


@gradient_operator("FlexibleTopK")
def flexible_top_k_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> list[str | None]:
    """dX = FlexibleTopKGradient(X, k, dY, the places)."""
    X, k = op.input
    if dys[0] is None:
        return [None, None]
    inputs = [X, k, dys[0], op.output[1]]
    return [*grad.emit("FlexibleTopKGradient", inputs, of=[X], like=op), None]
