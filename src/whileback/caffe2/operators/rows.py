"""What operators on rows share: rows are what a tensor holds along its first axis."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.reading.emitter import Emitter
from whileback.gradient.rules.tensor.places import add_at
from whileback.graph.shapes import rank

__all__ = ["add_rows", "along_rows", "rows_shape"]


def rows_shape(op: Emitter, count: ir.Value, X: ir.Value) -> ir.Value:
    """Return the shape of `count` (INT64[1]) rows like those of X."""
    return count if rank(X) == 1 else op.Concat(count, op.Shape(X, start=1), axis=0)


def along_rows(op: Emitter, numbers: ir.Value, X: ir.Value) -> ir.Value:
    """Return one number for each row with as many axes of size 1 as let it broadcast to X."""
    extra = (rank(X) or 1) - 1
    return op.Unsqueeze(numbers, [*range(1, extra + 1)]) if extra else numbers


def add_rows(op: Emitter, count: ir.Value, indices: ir.Value, X: ir.Value) -> ir.Value:
    """Return `count` (INT64[1]) rows; row i is the sum of the rows X[k] with indices[k] = i."""
    places = op.Expand(along_rows(op, indices, X), op.shape_of(X))
    return add_at(op, rows_shape(op, count, X), places, X, 0)
