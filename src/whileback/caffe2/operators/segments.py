"""Sums, means and other reductions of the rows of each segment.

Segments are given by their lengths (`LengthsSum`) or by a number for each row
(`SortedSegmentSum`, `UnsortedSegmentSum`). The operators called `Sparse…` first pick the rows from
a table; their gradients are rows of the table's gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    Slices,
    gradient_operator,
    lowering,
)
from whileback.caffe2.operators.rows import Segments, along_rows, places_within
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

GROUPS = [
    f"{s}{g}" for s in ("", "Sparse") for g in ("Lengths", "SortedSegment", "UnsortedSegment")
]
SUMS = [f"{group}Sum" for group in GROUPS]
MEANS = [f"{group}Mean" for group in GROUPS]
WEIGHTED = [f"{group}WeightedSum" for group in GROUPS]
# Of these both names are in use; the second input that tells them apart is not needed.
INDICES_IN_GRADIENT = [f"{sparse}LengthsIndicesInGradient" for sparse in ("", "Sparse")]


def _segments(
    op: Emitter, node: Operator, grouping: ir.Value, count: ir.Value | None = None
) -> Segments:
    """Return what the input that groups the rows means for this type of operator."""
    if "Lengths" in node.type:
        return Segments.of_lengths(op, grouping)
    if count is None and "Unsorted" in node.type and node.args.has("num_segments"):
        count = op.constant(np.array([node.args.int("num_segments")]))
    return Segments.of_ids(op, grouping, count)


def _read(op: Emitter, node: Operator) -> tuple[ir.Value, ir.Value | None, Segments]:
    """Return the rows to reduce, their weights if there are any, and the segments."""
    sparse, weighted = node.type.startswith("Sparse"), "Weighted" in node.type
    X, *others, grouping = node.tensors(2 + sparse + weighted)
    if sparse:
        X = op.Gather(X, others[-1])
        X = op.cast(X, ir.DataType.FLOAT) if X.dtype == ir.DataType.FLOAT16 else X
    return X, others[0] if weighted else None, _segments(op, node, grouping)


@lowering(*SUMS, *WEIGHTED, "SortedSegmentRangeSum")
def segment_sum(op: Emitter, node: Operator) -> ir.Value:
    """Y[s] is the sum of the rows of segment s, each times its weight."""
    X, weights, segments = _read(op, node)
    return segments.total(op, X if weights is None else _weighted(op, weights, X))


def _weighted(op: Emitter, weights: ir.Value, X: ir.Value) -> ir.Value:
    return op.Mul(X, along_rows(op, op.cast(weights, X), X))


@lowering("SparseLengthsPositionalWeightedSum")
def positional_sum(op: Emitter, node: Operator) -> ir.Value:
    """Y[s] is the sum of the rows of segment s, the i-th of them times weight i."""
    X, weights, segments = _read(op, node)
    own = op.Gather(weights, places_within(op, segments))
    return segments.total(op, _weighted(op, own, X))


@lowering(*MEANS, "SortedSegmentRangeMean")
def segment_mean(op: Emitter, node: Operator) -> ir.Value:
    """Y[s] is the mean of the rows of segment s, 0 if it has none."""
    X, _, segments = _read(op, node)
    return segments.share(op, segments.total(op, X))


@lowering("LengthsMax", "SortedSegmentRangeMax")
def segment_max(op: Emitter, node: Operator) -> ir.Value:
    """Y[s] is the largest row of segment s, element by element; 0 if it has none."""
    X, _, segments = _read(op, node)
    return segments.largest(op, X)


@lowering("SortedSegmentRangeLogSumExp", "SortedSegmentRangeLogMeanExp")
def segment_log_exp(op: Emitter, node: Operator) -> ir.Value:
    """Y[s] = log of the sum, or the mean, of exp(X) over segment s; its maximum m taken out."""
    X, _, segments = _read(op, node)
    m = segments.largest(op, X)
    total = segments.total(op, op.Exp(op.Sub(X, segments.spread(op, m))))
    if "Mean" in node.type:
        total = segments.share(op, total)
    return op.Add(op.Log(total), m)


def _spread(op: Emitter, node: Operator, dY: ir.Value, grouping: ir.Value, mean: bool) -> ir.Value:
    """Return for each row the gradient of its segment, or of the segment's mean its share."""
    segments = _segments(op, node, grouping, op.dim(dY, 0))
    return segments.spread(op, segments.share(op, dY) if mean else dY)


@lowering(
    *(f"{name}Gradient" for name in SUMS), *(f"{name}SumGradient" for name in INDICES_IN_GRADIENT)
)
def sum_gradient(op: Emitter, node: Operator) -> ir.Value:
    """The gradient of row k of segment s is dY[s]."""
    dY, grouping = node.tensors(2)
    return _spread(op, node, dY, grouping, mean=False)


@lowering(
    *(f"{name}Gradient" for name in MEANS), *(f"{name}MeanGradient" for name in INDICES_IN_GRADIENT)
)
def mean_gradient(op: Emitter, node: Operator) -> ir.Value:
    """The gradient of row k of segment s is dY[s] over the segment's length."""
    dY, grouping = node.tensors(2)
    return _spread(op, node, dY, grouping, mean=True)


@lowering(
    *(f"{name}Gradient" for name in WEIGHTED),
    "SparseLengthsIndicesInGradientWeightedSumGradient",
)
def weighted_gradient(op: Emitter, node: Operator) -> ir.Value:
    """The gradient of row k of segment s is w[k]·dY[s]."""
    weights, dY, grouping = node.tensors(3)
    return _weighted(op, weights, _spread(op, node, dY, grouping, mean=False))


@lowering(
    "LengthsWeightedSumWithMainInputGradient",
    "SparseLengthsWeightedSumWithMainInputGradient",
    "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient",
)
def weighted_gradients(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of the rows, w[k]·dY[s], and of the weights, dY[s]·X[k]."""
    sparse = node.type.startswith("Sparse")
    weights, dY, grouping, X, *indices = node.tensors(4 + sparse)
    rows = op.Gather(X, indices[0]) if sparse else X
    spread = _spread(op, node, dY, grouping, mean=False)
    products = op.Flatten(op.Mul(spread, rows), axis=1)
    return [_weighted(op, weights, spread), op.ReduceSum(products, [1], keepdims=0)]


@lowering("LengthsMaxWithMainInputAndForwardOutputGradient")
def lengths_max_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dY goes to the rows that are as large as Y."""
    Y, dY, lengths, X = node.tensors(4)
    return _where_largest(op, X, Y, dY, Segments.of_lengths(op, lengths))


@lowering("SortedSegmentRangeMaxGradient")
def range_max_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dY goes to the rows that are as large as Y."""
    X, Y, dY, ids = node.tensors(4)
    return _where_largest(op, X, Y, dY, Segments.of_ids(op, ids))


def _where_largest(
    op: Emitter, X: ir.Value, Y: ir.Value, dY: ir.Value, segments: Segments
) -> ir.Value:
    largest = op.Equal(X, segments.spread(op, Y))
    return op.Where(largest, segments.spread(op, dY), op.constant(0, dY.dtype))


@lowering("SortedSegmentRangeSumGradient", "SortedSegmentRangeMeanGradient")
def range_gradient(op: Emitter, node: Operator) -> ir.Value:
    """As of the other sums and means; X and Y are not needed."""
    _, _, dY, ids = node.tensors(4)
    return _spread(op, node, dY, ids, mean="Mean" in node.type)


@lowering("SortedSegmentRangeLogSumExpGradient", "SortedSegmentRangeLogMeanExpGradient")
def range_log_exp_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX[k] = dY[s]·exp(X[k] - Y[s]), of the mean its share."""
    X, Y, dY, ids = node.tensors(4)
    grown = op.Exp(op.Sub(X, op.Gather(Y, ids)))
    return op.Mul(_spread(op, node, dY, ids, mean="Mean" in node.type), grown)


def _gradient_of_rows(op: OperatorDef, rows: str) -> list[Gradient]:
    """Return the gradients of all inputs where only the rows get one: sparse if from a table."""
    others: list[Gradient] = [None] * (len(op.input) - 1)
    sparse = op.type.startswith("Sparse")
    return [Slices(op.input[len(op.input) - 2], rows) if sparse else rows, *others]


@gradient_operator(*SUMS, *MEANS)
def sum_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """The rows of dX from dY and the segments."""
    inputs = [dys[0], op.input[-1]]
    (rows,) = grad.emit(f"{op.type}Gradient", inputs, of=[op.input[0]], like=op)
    return _gradient_of_rows(op, rows)


@gradient_operator("SortedSegmentRangeSum", "SortedSegmentRangeMean")
def range_sum_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """As of `SortedSegmentSum`, which computes the same."""
    X, ids = op.input
    name = op.type.replace("Range", "")
    return [*grad.emit(f"{name}Gradient", [dys[0], ids], of=[X], like=op), None]


@gradient_operator("SortedSegmentRangeMax", "SortedSegmentRangeLogSumExp")
@gradient_operator("SortedSegmentRangeLogMeanExp")
def range_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX from X, Y, dY and the numbers of the segments."""
    X, ids = op.input
    inputs = [X, op.output[0], dys[0], ids]
    return [*grad.emit(f"{op.type}Gradient", inputs, of=[X], like=op), None]


@gradient_operator("LengthsMax")
def max_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX from Y, dY, the lengths and X."""
    X, lengths = op.input
    name = "LengthsMaxWithMainInputAndForwardOutputGradient"
    inputs = [op.output[0], dys[0], lengths, X]
    return [*grad.emit(name, inputs, of=[X], like=op), None]


@gradient_operator(*WEIGHTED)
def weighted_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """The rows of dX from the weights, dY and the segments; dw only if `grad_on_weights`."""
    X, weights, *indices, grouping = op.input
    inputs = [weights, dys[0], grouping]
    if not Arguments(op).bool("grad_on_weights", False):
        (rows,) = grad.emit(f"{op.type}Gradient", inputs, of=[X], like=op)
        return _gradient_of_rows(op, rows)
    if "Lengths" in op.type:
        name = f"{op.type}WithMainInputGradient"
        rows, dw = grad.emit(name, [*inputs, X, *indices], of=[X, weights], like=op)
    else:
        (rows,) = grad.emit(f"{op.type}Gradient", inputs, of=[X], like=op)
        dw = _gradient_of_weights(grad, op, dys[0])
    dX, _, *rest = _gradient_of_rows(op, rows)
    return [dX, dw, *rest]


def _gradient_of_weights(grad: Gradients, op: OperatorDef, dy: str) -> str:
    """Return dw[k] = dY[s]·X[k], the product of two rows."""
    X, weights, *indices, ids = op.input
    rows = grad.add("Gather", [X, indices[0]], f"{X}_rows") if indices else X
    spread = grad.add("Gather", [dy, ids], f"{op.output[0]}_grad_rows")
    return grad.add("DotProduct", [spread, rows], f"{weights}_grad")
