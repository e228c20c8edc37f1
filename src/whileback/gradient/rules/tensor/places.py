"""Adding up what comes back to each place of a tensor: the transpose of picking elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.graph.builder import Builder, Operand
from whileback.graph.dims import reshape_target
from whileback.graph.shapes import rank, size

__all__ = ["add_at", "add_rows_at", "pad_along", "put_back", "put_back_along"]


def add_at(op: Builder, shape: ir.Value, indices: ir.Value, dY: ir.Value, axis: int) -> ir.Value:
    """Return zeros of a shape with every element of dY added at its index along the axis.

    This is `ScatterElements`, never `ScatterND`: ONNX Runtime 1.32 loses what several of its
    threads add to one place.
    """
    wide = op.widened(dY)
    zeros = op.Expand(op.constant(0, wide.dtype), shape)
    total = op.ScatterElements(zeros, indices, wide, axis=axis, reduction="add")
    return op.cast(total, dY)


def put_back(
    op: Builder, X: ir.Value, dY: ir.Value, pick: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Return dX for a Y = pick(X) that only picks elements: each gets back what it gave.

    `pick` is called on the numbers of the places of X, and so tells where every element of Y
    comes from.
    """
    count = size(X)
    total = op.Size(X) if count is None else op.constant(count)
    numbers = op.Range(0, total, 1)
    if rank(X) != 1:
        numbers = op.Reshape(numbers, op.shape_of(X), allowzero=1)
    places = op.Reshape(pick(numbers), [-1])
    length = op.Unsqueeze(total, [0]) if count is None else op.constant([count])
    flat = add_at(op, length, places, op.Reshape(dY, [-1]), 0)
    return op.reshape(flat, X)


def add_rows_at(op: Builder, X: ir.Value, indices: ir.Value, dY: ir.Value, axis: int) -> ir.Value:
    """Return dX for Y = Gather(X, indices, axis): dY added up at the indices."""
    if rank(indices) == 0:
        return _add_one_row_at(op, X, indices, dY, axis)
    if rank(indices) is None or X.shape is None:
        return put_back(op, X, dY, lambda numbers: op.Gather(numbers, indices, axis=axis))
    axis %= len(X.shape)
    rows = dY
    if rank(indices) != 1:
        rows = op.Reshape(dY, _shape_with(op, X, axis, indices), allowzero=1)
    spread = op.Reshape(indices, [-1, *[1] * (len(X.shape) - axis - 1)])
    return add_at(op, op.shape_of(X), op.Expand(spread, op.shape_of(rows)), rows, axis)


def put_back_along(
    op: Builder, X: ir.Value, dY: ir.Value, axis: int, pick: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Return the same where `pick` picks rows along one axis; it is called on their numbers."""
    numbers = op.arange(op.dim(X, axis))
    return add_rows_at(op, X, pick(numbers), dY, axis)


def _add_one_row_at(op: Builder, X: ir.Value, index: ir.Value, dY: ir.Value, axis: int) -> ir.Value:
    if axis == 0:
        place = op.Unsqueeze(op.cast(index, ir.DataType.INT64), [0])
        return op.ScatterND(op.zeros_like(X), place, dY)
    row = op.Unsqueeze(dY, [axis])
    place = op.Expand(index, op.shape_of(row))
    return op.ScatterElements(op.zeros_like(X), place, row, axis=axis)


def _shape_with(op: Builder, X: ir.Value, axis: int, indices: ir.Value) -> Operand:
    """Return the shape of X with as many rows as there are indices."""
    dims = list(X.shape or ())
    count = size(indices)
    dims[axis] = ir.SymbolicDim(None) if count is None else count
    target = reshape_target(dims)
    if target is not None:
        return target
    parts = [op.dim(X, each) for each in range(len(dims))]
    parts[axis] = op.Unsqueeze(op.Size(indices), [0])
    return op.Concat(*parts, axis=0)


def pad_along(
    op: Builder,
    X: ir.Value,
    pads: Sequence[int] | ir.Value,
    axes: Sequence[int] | ir.Value | None,
    value: Operand = None,
    mode: str | None = None,
) -> ir.Value:
    """Return X padded along some axes, or along all.

    Where the rank is known no axis is left out: when ONNX Runtime 1.32 moves a Transpose across a
    Pad, it mistakes the pads of some axes for those of all.
    """
    count = rank(X)
    if count is None or axes is None or isinstance(axes, ir.Value):
        return op.Pad(X, pads, value, axes, mode=mode)
    padded = [axis % count for axis in axes]
    ends = [0 if axis not in padded else 1 + padded.index(axis) for axis in range(count)]
    chosen = [*ends, *(end and end + len(padded) for end in ends)]
    if isinstance(pads, ir.Value):
        return op.Pad(X, op.Gather(op.Concat([0], pads, axis=0), chosen), value, mode=mode)
    known = [0, *pads]
    return op.Pad(X, [known[k] for k in chosen], value, mode=mode)
