"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import batched, widened
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def _of_channels(values: Any, rank: int) -> Any:
    """Return one number for each channel, shaped to be broadcast."""
    return jnp.reshape(widened(values), (-1, *(1,) * (rank - 2)))


def _batch_rows(op: Operator, X: Any, *others: Any) -> Any:
    """In training, the statistics are those of all rows; else each row is by itself."""
    if op.integer("training_mode", 0):
        return _batch_normalization(op, *(exact(op.trace, operand) for operand in (X, *others)))
    return batched(_batch_normalization)(op, X, *others)


@lowering("BatchNormalization", rows=_batch_rows)
def _batch_normalization(
    op: Operator, X: Any, scale: Any, B: Any, input_mean: Any, input_var: Any
) -> Any:
    """Y = scale·(X - mean)/√(var + ε) + B, for each channel.

    In training, the mean and the variance are those of X, and running ones are updated.
    """
    X = widened(X)
    mean, var = widened(input_mean), widened(input_var)
    running: tuple[Any, ...] = ()
    if op.integer("training_mode", 0):
        kept, axes = op.number("momentum", 0.9), (0, *range(2, X.ndim))
        old, (mean, var) = (mean, var), (X.mean(axes), X.var(axes))
        running = tuple(kept * a + (1 - kept) * b for a, b in zip(old, (mean, var), strict=True))
    scale, B, mean, var = (_of_channels(values, X.ndim) for values in (scale, B, mean, var))
    Y = scale * (X - mean) / jnp.sqrt(var + op.number("epsilon", 1e-5)) + B
    results = (Y, *running)[: len(op.node.outputs)]
    return tuple(value.astype(op.dtype(k)) for k, value in enumerate(results))


def _instance_normalization(op: Operator, X: Any, scale: Any, B: Any) -> Any:
    """Y = scale·(X - mean)/√(var + ε) + B, with the statistics of each channel of each image."""
    X = widened(X)
    axes = tuple(range(2, X.ndim))
    mean, var = X.mean(axes, keepdims=True), X.var(axes, keepdims=True)
    scale, B = _of_channels(scale, X.ndim), _of_channels(B, X.ndim)
    Y = scale * (X - mean) / jnp.sqrt(var + op.number("epsilon", 1e-5)) + B
    return Y.astype(op.dtype())


lowering("InstanceNormalization", rows=batched(_instance_normalization))(_instance_normalization)


def _lrn(op: Operator, X: Any) -> Any:
    """Y = X/(bias + alpha/size·Σ x²)^beta, summed over channels nearby."""
    size = op.integer("size")
    X = widened(X)
    window = _along(X.ndim, 1, size)
    pads = [(0, 0)] * X.ndim
    pads[1] = (size - 1) // 2, size // 2
    squares = jax.lax.reduce_window(
        X * X, jnp.zeros((), X.dtype), jax.lax.add, window, (1,) * X.ndim, pads
    )
    alpha, beta, bias = op.number("alpha", 1e-4), op.number("beta", 0.75), op.number("bias", 1.0)
    return (X / (bias + alpha / size * squares) ** beta).astype(op.dtype())


lowering("LRN", rows=batched(_lrn))(_lrn)


def _along(rank: int, axis: int, size: int) -> Sequence[int]:
    return tuple(size if k == axis else 1 for k in range(rank))


def _lp_rows(op: Operator, X: Rows) -> Any:
    """Along axis 0, rows that do not count are zeros of the norm."""
    return X.like(_lp_normalization(op, X.filled(0)))


@lowering("LpNormalization", rows=_lp_rows)
def _lp_normalization(op: Operator, X: Any) -> Any:
    """Y = X/‖X‖ₚ along an axis, and zeros where the norm is 0."""
    X = widened(X)
    size = jnp.abs(X) if op.integer("p", 2) == 1 else X * X
    norm = size.sum(op.integer("axis", -1), keepdims=True)
    norm = norm if op.integer("p", 2) == 1 else jnp.sqrt(norm)
    return (X / jnp.where(norm == 0, 1, norm)).astype(op.dtype())
