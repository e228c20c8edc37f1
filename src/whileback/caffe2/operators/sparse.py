"""Rows and elements given by index: made dense, and written into a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    gradient_operator,
    lowering,
)
from whileback.caffe2.operators.rows import (
    Segments,
    add_rows,
    count_named,
    last_rows,
    rows_shape,
    scatter_rows,
    wide,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import rank


@lowering("SparseToDense")
def sparse_to_dense(op: Emitter, node: Operator) -> ir.Value:
    """Y[indices[k]] is the sum of the rows values[k].

    Y has as many rows as the third input, or `output_first_dim`, or the largest index and one.
    """
    indices, values = node.tensors(2)
    like = node.optional(2)
    given = node.args.int("output_first_dim", 0)
    if like is not None:
        count = op.dim(like, 0)
    else:
        count = op.constant([given]) if given else count_named(op, indices)
    return add_rows(op, count, indices, values)


@gradient_operator("SparseToDense")
def sparse_to_dense_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """A value's gradient is the row of dY that it was added to."""
    indices, values, *like = op.input
    return [None, grad.add("Gather", [dys[0], indices], f"{values}_grad"), *[None for _ in like]]


@lowering("SparseToDenseMask")
def sparse_to_dense_mask(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y[s, m] is the last of the rows of segment s whose id is mask[m], or the default."""
    ids, values, default = node.tensors(3)
    places, shape = _mask_places(op, node, ids, node.optional(3))
    count = op.Add(op.ReduceProd(shape, keepdims=1), [1])
    dense = _dense(op, default, count, places, values)
    there = op.Greater(add_rows(op, count, places, op.Expand(1, op.shape_of(places))), 0)
    return [
        op.Reshape(op.Slice(dense, [1], count), rows_shape(op, shape, values), allowzero=1),
        op.Reshape(op.Slice(there, [1], count), shape, allowzero=1),
    ]


def _dense(
    op: Emitter, default: ir.Value, count: ir.Value, places: ir.Value, values: ir.Value
) -> ir.Value:
    """Return `count` rows, the default where no value is written."""
    blank = op.Expand(op.cast(default, values), rows_shape(op, count, values))
    return last_rows(op, blank, places, values)


def _mask_places(
    op: Emitter, node: Operator, ids: ir.Value, lengths: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """Return the place of each row in the dense tensor, and that tensor's leading dimensions.

    Places count from 1: rows whose id is not in `mask` go to place 0.
    """
    mask = np.array(node.args.ints("mask"), np.int64)
    found = op.Equal(op.Unsqueeze(wide(op, ids), [1]), op.constant(mask))
    columns = op.Where(found, op.constant(np.arange(1, len(mask) + 1)), op.constant([0]))
    column, width = op.ReduceMax(columns, [1], keepdims=0), op.constant([len(mask)])
    if lengths is None:
        return column, width
    start = op.Mul(Segments.of_lengths(op, lengths).ids, width)
    place = op.Where(op.Greater(column, 0), op.Add(start, column), op.constant([0]))
    return place, op.Concat(op.dim(lengths, 0), width, axis=0)


@lowering("SparseToDenseMaskGradient")
def sparse_to_dense_mask_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of the rows, from the ids, dY and the lengths."""
    ids, dY = node.tensors(2)
    lengths = node.optional(2)
    places, shape = _mask_places(op, node, ids, lengths)
    rest = op.Shape(dY, start=1 if lengths is None else 2)
    values = op.Expand(op.constant(0, dY.dtype), op.Concat(op.dim(ids, 0), rest, axis=0))
    count = op.Add(op.ReduceProd(shape, keepdims=1), [1])

    def dense(op: Emitter, values: ir.Value) -> ir.Value:
        rows = _dense(op, op.constant(0, dY.dtype), count, places, values)
        return op.reshape(op.Slice(rows, [1], count), dY)

    return op.pullback(dense, [values], [dY])


@gradient_operator("SparseToDenseMask")
def sparse_to_dense_mask_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str]
) -> list[Gradient]:
    """The rows that were written get their part of dY; the default gets the sum of the rest."""
    ids, values, default, *lengths = op.input
    inputs = [ids, dys[0], *lengths]
    (rows,) = grad.emit("SparseToDenseMaskGradient", inputs, of=[values], like=op)
    leading = 2 if lengths else 1
    everywhere = grad.add("ReduceFrontSum", [dys[0]], f"{dys[0]}_sum", num_reduce_dim=leading)
    written = grad.add("ReduceFrontSum", [rows], f"{rows}_sum", num_reduce_dim=1)
    rest = grad.add("Sub", [everywhere, written], f"{default}_grad")
    return [None, rows, rest, *[None for _ in lengths]]


@lowering("BatchSparseToDense")
def batch_sparse_to_dense(op: Emitter, node: Operator) -> ir.Value:
    """Y[s, indices[k]] = values[k] for the k of segment s, `default_value` elsewhere."""
    lengths, indices, values = node.tensors(3)
    like = node.optional(3)
    width = op.constant([node.args.int("dense_last_dim")]) if like is None else op.dim(like, 1)
    starts = op.Mul(Segments.of_lengths(op, lengths).ids, width)
    default = op.constant(node.args.float("default_value", 0.0), values.dtype)
    shape = op.Concat(op.dim(lengths, 0), width, axis=0)
    places = op.Add(starts, wide(op, indices))
    dense = _dense(op, default, op.ReduceProd(shape, keepdims=1), places, values)
    return op.Reshape(dense, shape, allowzero=1)


@lowering("BatchDenseToSparse")
def batch_dense_to_sparse(op: Emitter, node: Operator) -> ir.Value:
    """values[k] = X[s, indices[k]] for the k of segment s."""
    lengths, indices, X = node.tensors(3)
    rows = Segments.of_lengths(op, lengths).ids
    places = [op.Unsqueeze(each, [1]) for each in (rows, wide(op, indices))]
    return op.GatherND(X, op.Concat(*places, axis=1))


@gradient_operator("BatchSparseToDense")
def batch_sparse_to_dense_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str]
) -> list[Gradient]:
    """A value's gradient is the element of dY where it was put."""
    lengths, indices, values, *like = op.input
    inputs = [lengths, indices, dys[0]]
    return [
        None,
        None,
        grad.add("BatchDenseToSparse", inputs, f"{values}_grad"),
        *[None for _ in like],
    ]


@gradient_operator("BatchDenseToSparse")
def batch_dense_to_sparse_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str]
) -> list[Gradient]:
    """dX has dY where its elements came from, zeros elsewhere."""
    lengths, indices, X = op.input
    inputs = [lengths, indices, dys[0], X]
    return [None, None, grad.add("BatchSparseToDense", inputs, f"{X}_grad")]


@lowering("Scatter")
def scatter(op: Emitter, node: Operator) -> ir.Value:
    """X with single elements overwritten, along `axis`, 1 by default."""
    X, indices, updates = node.tensors(3)
    return op.ScatterElements(X, indices, updates, axis=node.args.int("axis", 1))


def _flat(op: Emitter, X: ir.Value, indices: ir.Value, U: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the indices as a list, and as many rows."""
    if rank(indices) == 1:
        return indices, U
    indices = op.Reshape(indices, [-1])
    return indices, op.Reshape(U, rows_shape(op, op.Shape(indices), X), allowzero=1)


@lowering("ScatterAssign")
def scatter_assign(op: Emitter, node: Operator) -> ir.Value:
    """X with the rows U written to the indices, one after the other."""
    X, indices, U = node.tensors(3)
    return last_rows(op, X, *_flat(op, X, indices, U))


@lowering("CopyRowsToTensor")
def copy_rows_to_tensor(op: Emitter, node: Operator) -> ir.Value:
    """X with one row written to all the indices."""
    X, indices, row = node.tensors(3)
    return last_rows(op, X, indices, op.Expand(row, rows_shape(op, op.shape_of(indices), X)))


@lowering("ScatterWeightedSum")
def scatter_weighted_sum(op: Emitter, node: Operator) -> ir.Value:
    """The rows of X at the indices times w0, and each one plus its w1·X1 + w2·X2 + ….

    A row that is named twice is scaled twice before anything is added.
    """
    X, w0, indices, *pairs = node.tensors(len(node.inputs))
    terms = [op.Mul(op.cast(w, U), U) for U, w in zip(pairs[::2], pairs[1::2], strict=True)]
    indices, total = _flat(op, X, indices, op.Sum(*terms))
    if w0.const_value is None or not np.all(w0.const_value.numpy() == 1):
        factors = op.Expand(op.Reshape(op.cast(w0, X), [1]), op.Shape(op.Reshape(total, [-1])))
        X = scatter_rows(op, X, indices, factors, "mul")
    return scatter_rows(op, X, indices, total, "add")
