"""From floats to whole numbers, before they are rounded, and back."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.shapes import describe, rank, static_shape

__all__ = ["in_units", "limits", "out_of_units", "wide"]

# The largest numbers of the float types.
_LARGEST = {
    "FLOAT8E4M3FN": 448.0,
    "FLOAT8E4M3FNUZ": 240.0,
    "FLOAT8E5M2": 57344.0,
    "FLOAT8E5M2FNUZ": 57344.0,
    "FLOAT6E2M3": 7.5,
    "FLOAT6E3M2": 28.0,
    "FLOAT4E2M1": 6.0,
}


def limits(dtype: ir.DataType) -> tuple[float, float]:
    """Return the smallest and the largest number of a type."""
    if dtype.name in _LARGEST:
        return -_LARGEST[dtype.name], _LARGEST[dtype.name]
    if dtype.is_signed():
        return -(2.0 ** (dtype.bitwidth - 1)), 2.0 ** (dtype.bitwidth - 1) - 1
    return 0.0, 2.0**dtype.bitwidth - 1


def wide(op: Builder, value: ir.Value) -> ir.Value:
    """Return the value in FLOAT, or as it is if it is DOUBLE."""
    return value if value.dtype == ir.DataType.DOUBLE else op.cast(value, ir.DataType.FLOAT)


def in_units(
    op: Builder,
    X: ir.Value,
    scale: ir.Value,
    zero_point: ir.Value | None,
    dtype: ir.DataType,
    axis: int | None = None,
    block: int = 0,
) -> ir.Value:
    """Return X / scale + zero_point, clipped to the range of a type.

    Args:
        op: emits operators.
        X: a tensor.
        scale, zero_point: for all of X, for each row along the `axis`, for each `block` of rows,
            or (with no `axis`) as they are broadcast to X.
        dtype: the type of the result, were it rounded.
        axis, block: see there.
    """
    units = op.Div(wide(op, X), _spread(op, wide(op, scale), X, axis, block))
    if zero_point is not None:
        units = op.Add(units, _spread(op, wide(op, zero_point), X, axis, block))
    return op.Clip(units, *limits(dtype))


def out_of_units(
    op: Builder,
    X: ir.Value,
    scale: ir.Value,
    zero_point: ir.Value | None,
    axis: int | None = None,
    block: int = 0,
) -> ir.Value:
    """Return (X - zero_point)·scale; for the arguments see `in_units`."""
    units = wide(op, X)
    if zero_point is not None:
        units = op.Sub(units, _spread(op, wide(op, zero_point), X, axis, block))
    return op.Mul(units, _spread(op, wide(op, scale), X, axis, block))


def _spread(op: Builder, scale: ir.Value, X: ir.Value, axis: int | None, block: int) -> ir.Value:
    """Return a scale, or zero point, so that it is broadcast to X."""
    if axis is None or rank(scale) == 0:
        return scale
    if rank(scale) is None:
        raise UnsupportedError(
            f"Scale '{scale.name}' of '{X.name}' is {describe(scale)}: whether it is for all, for "
            "rows or for blocks shows in its rank. Declare its shape; dimensions may be symbols."
        )
    if static_shape(scale) == (1,):
        return op.Squeeze(scale, [0])
    if rank(scale) == 1 and not block:
        return _along(op, scale, X, axis)
    rows = op.arange(op.dim(X, axis))
    return op.Gather(scale, op.Div(rows, block), axis=axis)


def _along(op: Builder, scale: ir.Value, X: ir.Value, axis: int) -> ir.Value:
    """Return a list of numbers as a tensor of the rank of X, along an axis."""
    count = rank(X)
    if count is not None:
        return op.Unsqueeze(scale, [each for each in range(count) if each != axis % count])
    ones = op.Expand(1, op.Shape(op.Shape(X)))
    return op.Reshape(scale, op.ScatterElements(ones, [axis], [-1]))
