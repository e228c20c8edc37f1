"""Exponential moving averages of the parameters."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder

__all__ = ["averaged", "check_average"]


def check_average(decay: float | None) -> None:
    """Refuse a decay outside of 0 ≤ β < 1."""
    if decay is not None and not 0 <= decay < 1:
        raise ArgumentError(f"average={decay!r} is no decay. Give a number from 0 and below 1.")


def averaged(
    op: Builder, average: ir.Value, w: ir.Value, decay: float, number: ir.Value
) -> ir.Value:
    """Return β·average + (1 - β)·w; in step number 1, w itself.

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992; as
    PyTorch's `AveragedModel` has it with `get_ema_multi_avg_fn`.
    """
    first = op.Equal(number, 1.0)
    shares = (
        op.Where(first, *(op.constant(each, w.dtype) for each in pair))
        for pair in ((0.0, decay), (1.0, 1.0 - decay))
    )
    kept, new = shares
    return op.Add(op.Mul(average, kept), op.Mul(w, new))
