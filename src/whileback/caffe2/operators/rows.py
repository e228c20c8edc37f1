"""What operators on rows share: rows are what a tensor holds along its first axis.

Rows that follow one another form segments, which are given by their lengths or by the number of
its segment for each row. A segment may have no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.gradient.rules.tensor.places import add_at
from whileback.graph.shapes import rank

__all__ = [
    "Segments",
    "add_rows",
    "along_rows",
    "blank_row",
    "count_named",
    "in_places",
    "last_rows",
    "packed",
    "places_within",
    "put_rows_back",
    "rows_of_ranges",
    "rows_shape",
    "scatter_rows",
    "size_of",
    "starts",
    "unmasked",
    "wide",
]


def wide(op: Emitter, numbers: ir.Value) -> ir.Value:
    """Return lengths or indices as INT64, which ONNX Runtime computes with throughout."""
    return op.cast(numbers, ir.DataType.INT64)


def rows_shape(op: Emitter, count: ir.Value, X: ir.Value) -> ir.Value:
    """Return the shape of `count` (INT64[1]) rows like those of X."""
    return count if rank(X) == 1 else op.Concat(count, op.Shape(X, start=1), axis=0)


def along_rows(op: Emitter, numbers: ir.Value, X: ir.Value) -> ir.Value:
    """Return one number for each row with as many axes of size 1 as let it broadcast to X."""
    if rank(X) is None:
        ones = op.Expand(1, op.Sub(op.Shape(op.Shape(X)), [1]))
        return op.Reshape(numbers, op.Concat([-1], ones, axis=0))
    extra = (rank(X) or 1) - 1
    return op.Unsqueeze(numbers, list(range(1, extra + 1))) if extra else numbers


def size_of(op: Emitter, X: ir.Value, start: int, end: int | None = None) -> ir.Value:
    """Return the product of some dimensions of X, INT64[1]."""
    dims = None if X.shape is None else list(X.shape)[start:end]
    if dims is not None and all(isinstance(dim, int) for dim in dims):
        return op.constant(np.array([math.prod(dims)], np.int64))
    return op.ReduceProd(op.Shape(X, start=start, end=end), keepdims=1)


def _elements(op: Emitter, indices: ir.Value, X: ir.Value) -> ir.Value:
    """Return the places of the elements of rows among those of all rows, for rows like X's.

    ONNX Runtime 1.32 scatters along the only axis three times as fast as along one of several.
    """
    if rank(X) == 1:
        return wide(op, indices)
    width = size_of(op, X, 1)
    first = op.Unsqueeze(op.Mul(wide(op, indices), width), [1])
    return op.Reshape(op.Add(first, op.arange(width)), [-1])


def scatter_rows(
    op: Emitter, X: ir.Value, indices: ir.Value, U: ir.Value, reduction: str
) -> ir.Value:
    """Return X with the rows U combined with those at the indices."""
    flat = [op.Reshape(each, [-1]) for each in (X, U)]
    places = _elements(op, indices, X)
    return op.reshape(op.ScatterElements(flat[0], places, flat[1], reduction=reduction), X)


def add_rows(op: Emitter, count: ir.Value, indices: ir.Value, X: ir.Value) -> ir.Value:
    """Return `count` (INT64[1]) rows; row i is the sum of the rows X[k] with indices[k] = i."""
    places = _elements(op, indices, X)
    total = add_at(op, op.Mul(count, size_of(op, X, 1)), places, op.Reshape(X, [-1]), 0)
    return op.Reshape(total, rows_shape(op, count, X), allowzero=1)


def unmasked(op: Emitter, mask: ir.Value, rows: ir.Value) -> ir.Value:
    """Return the rows where a mask holds, zeros elsewhere."""
    count = op.dim(mask, 0)
    return add_rows(op, count, op.Compress(op.arange(count), mask, axis=0), rows)


def count_named(op: Emitter, indices: ir.Value) -> ir.Value:
    """Return how many rows the largest index asks for, as INT64[1]: none where there is none."""
    return op.Add(op.ReduceMax(op.Concat(wide(op, indices), [-1], axis=0), [0], keepdims=1), [1])


def last_rows(op: Emitter, X: ir.Value, indices: ir.Value, U: ir.Value) -> ir.Value:
    """Return X with the rows U written to the indices, in their order: the last one stays.

    The largest number of a row of [X; U] that is meant for a place tells which one that is.
    (`ScatterND` leaves the order open.)
    """
    count = op.dim(X, 0)
    numbers = op.Add(op.arange(op.dim(U, 0)), count)
    chosen = op.ScatterElements(op.arange(count), wide(op, indices), numbers, reduction="max")
    return op.Gather(op.Concat(X, U, axis=0), chosen)


@dataclass(frozen=True)
class Segments:
    """The number of its segment for each row, and of each segment the length; all INT64."""

    ids: ir.Value
    lengths: ir.Value

    @classmethod
    def of_lengths(cls, op: Emitter, lengths: ir.Value) -> Segments:
        """Return the segments of given lengths.

        A row's number is how many segments have started before or with it, less one.
        """
        lengths = wide(op, lengths)
        total = op.ReduceSum(lengths, keepdims=1)
        ones = op.Expand(1, op.shape_of(lengths))
        started = add_rows(op, op.Add(total, [1]), starts(op, lengths), ones)
        ids = op.Slice(op.Sub(op.CumSum(started, 0), 1), [0], total)
        return cls(ids, lengths)

    @classmethod
    def of_ids(cls, op: Emitter, ids: ir.Value, count: ir.Value | None = None) -> Segments:
        """Return `count` (INT64[1]) segments; by default up to the largest number."""
        ids = wide(op, ids)
        count = count_named(op, ids) if count is None else count
        return cls(ids, add_rows(op, count, ids, op.Expand(1, op.shape_of(ids))))

    def spread(self, op: Emitter, Y: ir.Value) -> ir.Value:
        """Return for each row what Y has for its segment."""
        return op.Gather(Y, self.ids)

    def total(self, op: Emitter, X: ir.Value) -> ir.Value:
        """Return the sum of the rows of each segment."""
        return add_rows(op, op.dim(self.lengths, 0), self.ids, X)

    def share(self, op: Emitter, Y: ir.Value) -> ir.Value:
        """Return Y over the length of each segment; one without rows keeps its own."""
        lengths = op.cast(op.Max(self.lengths, 1), Y)
        return op.Div(Y, along_rows(op, lengths, Y))

    def largest(self, op: Emitter, X: ir.Value) -> ir.Value:
        """Return the largest row of each segment, element by element; 0 where there is none."""
        zero, least = op.constant(0, X.dtype), op.constant(-np.inf, X.dtype)
        start = op.Expand(least, rows_shape(op, op.dim(self.lengths, 0), X))
        found = scatter_rows(op, start, self.ids, X, "max")
        return op.Where(along_rows(op, op.Equal(self.lengths, 0), X), zero, found)


def starts(op: Emitter, lengths: ir.Value) -> ir.Value:
    """Return the number of the first row of each segment, INT64."""
    return op.CumSum(wide(op, lengths), 0, exclusive=1)


def places_within(op: Emitter, segments: Segments) -> ir.Value:
    """Return each row's number within its segment."""
    first = segments.spread(op, starts(op, segments.lengths))
    return op.Sub(op.arange(op.Shape(segments.ids)), first)


def rows_of_ranges(op: Emitter, first: ir.Value, lengths: ir.Value) -> ir.Value:
    """Return the numbers of the rows of ranges, one range after the other."""
    segments = Segments.of_lengths(op, lengths)
    return op.Add(segments.spread(op, wide(op, first)), places_within(op, segments))


def blank_row(op: Emitter, X: ir.Value, value: float = 0) -> ir.Value:
    """Return one row like those of X, full of a number; of strings it is full of empty ones."""
    element = op.constant(b"" if X.dtype == ir.DataType.STRING else value, X.dtype)
    return op.Expand(element, rows_shape(op, op.constant([1]), X))


def packed(
    op: Emitter,
    X: ir.Value,
    lengths: ir.Value,
    width: ir.Value,
    value: float = 0,
    time_first: bool = False,
) -> tuple[ir.Value, ir.Value]:
    """Return the rows of each segment beside those of the others, and which of them are there.

    Every segment gets `width` (INT64[1]) rows: the first of its own, then ones full of `value`.
    Segments come first, or their rows.
    """
    across, along = (0, 1) if time_first else (1, 0)
    places = op.Unsqueeze(op.arange(width), [along])
    there = op.Less(places, op.Unsqueeze(wide(op, lengths), [across]))
    own = op.Add(op.Unsqueeze(starts(op, lengths), [across]), places)
    rows = op.Concat(X, blank_row(op, X, value), axis=0)
    return op.Gather(rows, op.Where(there, own, op.dim(X, 0))), there


def in_places(
    op: Emitter, count: ir.Value, places: Sequence[ir.Value], parts: Sequence[ir.Value]
) -> ir.Value:
    """Return `count` (INT64[1]) rows: row k of each part is put at the k-th of the part's places.

    A place that no part has keeps the number of no row, which the runtime refuses.
    """
    rows = op.Concat(*parts, axis=0)
    numbers = op.arange(op.dim(rows, 0))
    order = op.ScatterElements(op.Expand(count, count), op.Concat(*places, axis=0), numbers)
    return op.Gather(rows, order)


def put_rows_back(grad: Gradients, op: OperatorDef, dy: str) -> str:
    """Return dX for an operator whose first output only picks rows of its first input X.

    Picking from the numbers of the rows tells where each one came from; there dY is added.
    """
    X, *others = op.input
    numbers = grad.add("Range", [grad.add("Shape", [X], f"{X}_count", axes=[0])], f"{X}_rows")
    picked = [f"{X}_picked" for _ in op.output]
    places = grad.add_all(op.type, [numbers, *others], picked)[0]
    return grad.add("SparseToDense", [places, dy, X], f"{X}_grad")
