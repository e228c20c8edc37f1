"""Squares of gradients kept as products of rows and columns: Adafactor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.signatures import require_types
from whileback.training.optimizers.base import Clock, Optimizer, Shape, State

__all__ = ["adafactor"]


def adafactor(
    beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3),
    d: float = 1.0,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Return Adafactor: g²'s running mean V as a product of its rows' and its columns' means.

    With ρ = min(rate, 1/√t), β = 1 - t^beta2_decay and u = g/√V: w' = w - max(ε₂, rms w)·ρ·u /
    max(1, rms(u)/d). A vector keeps V as it is. ε₁ is by default the type's own.

    Raises: ArgumentError for d below 1.

    Keeps: `row` [..., n, 1] and `column` [..., 1, m] for a parameter [..., n, m], else `square`.

    Source: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory cost,
    arXiv:1804.04235, with the rate as an upper bound, as PyTorch has it.
    """
    require_types(adafactor, locals())
    if d < 1:
        raise ArgumentError(f"adafactor(d=…) has {d!r}; give a number from 1.")

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        smallest = eps[0] if eps[0] is not None else float(np.finfo(_numpy(w)).eps)
        share = op.cast(op.Pow(clock.number, op.constant(np.float64(beta2_decay))), w)
        rate = op.Min(op.cast(clock.rate, ir.DataType.DOUBLE), _reciprocal_root(op, clock.number))
        scale = op.Mul(op.cast(rate, w), op.Max(_rms(op, w), eps[1]))
        square = op.Mul(g, g)
        if "square" in state:
            new = {"square": _towards(op, state["square"], square, share)}
            V = new["square"]
        else:
            row = _towards(op, state["row"], op.ReduceMean(square, [-1]), share)
            column = _towards(op, state["column"], op.ReduceMean(square, [-2]), share)
            total = op.Max(op.ReduceMean(row, [-2]), smallest)
            new, V = {"row": row, "column": column}, op.Div(op.MatMul(row, column), total)
        u = op.Div(g, op.Sqrt(op.Max(V, smallest * smallest)))
        limit = op.Max(op.Div(_rms(op, u), d), 1.0)
        return op.Mul(op.Div(scale, limit), u), new

    return Optimizer(
        "adafactor",
        update,
        _factors,
        weight_decay=weight_decay,
        decoupled=True,
        needs_number=True,
    )


def _factors(shape: Shape) -> Mapping[str, Shape]:
    if len(shape) < 2:
        return {"square": shape}
    return {"row": (*shape[:-1], 1), "column": (*shape[:-2], 1, shape[-1])}


def _towards(op: Builder, mean: ir.Value, new: ir.Value, share: ir.Value) -> ir.Value:
    """Return mean + share·(new - mean)."""
    return op.Add(mean, op.Mul(share, op.Sub(new, mean)))


def _rms(op: Builder, value: ir.Value) -> ir.Value:
    return op.Sqrt(op.ReduceMean(op.Mul(value, value), keepdims=0))


def _reciprocal_root(op: Builder, number: ir.Value) -> ir.Value:
    return op.Reciprocal(op.Sqrt(number))


def _numpy(value: ir.Value) -> np.dtype:
    assert value.dtype is not None
    return value.dtype.numpy()
