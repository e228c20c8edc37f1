"""Pools: sums, means, norms and maxima over windows, or over all spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import batched, widened
from whileback.engines.xla.operators.nn.windows import Axis, padded, window_axes
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _axes(op: Operator, X: Any) -> list[Axis]:
    return window_axes(op, X.shape[2:], op.integers("kernel_shape"))


def _over_windows(axes: Sequence[Axis], operands: Any, initial: Any, combine: Any) -> Any:
    """Combine what each window has of operands that are padded already."""
    return jax.lax.reduce_window(
        operands,
        initial,
        combine,
        (1, 1, *(axis.kernel for axis in axes)),
        (1, 1, *(axis.stride for axis in axes)),
        "VALID",
        window_dilation=(1, 1, *(axis.dilation for axis in axes)),
    )


def _window_sums(axes: Sequence[Axis], X: Any) -> Any:
    zero = np.zeros((), X.dtype)
    return _over_windows(axes, padded(X, axes, 0), zero, jax.lax.add)


def _average_pool(op: Operator, X: Any) -> Any:
    """The sum over each window, divided by how many elements it has."""
    axes = _axes(op, X)
    include = bool(op.integer("count_include_pad", 0))
    counts = np.ones(())
    for axis in axes:
        counts = np.multiply.outer(counts, axis.members(include))
    X = widened(X)
    return (_window_sums(axes, X) / counts.astype(X.dtype)).astype(op.dtype())


lowering("AveragePool", rows=batched(_average_pool))(_average_pool)


def _lp_pool(op: Operator, X: Any) -> Any:
    """(Σ |x|^p)^(1/p) over each window."""
    p = op.integer("p", 2)
    return (_window_sums(_axes(op, X), jnp.abs(widened(X)) ** p) ** (1 / p)).astype(op.dtype())


lowering("LpPool", rows=batched(_lp_pool))(_lp_pool)


def _lowest(dtype: Any) -> Any:
    is_float = jnp.issubdtype(dtype, jnp.floating)
    return np.array(-np.inf if is_float else np.iinfo(dtype).min, dtype)


def _max_pool(op: Operator, X: Any) -> Any:
    """The largest element of each window, and where it stands in X; the first of equal ones."""
    axes = _axes(op, X)
    lowest = _lowest(X.dtype)
    values = padded(X, axes, lowest)
    if not op.has(1):
        return _over_windows(axes, values, lowest, jax.lax.max)
    last = np.array(np.iinfo(np.int64).max)
    places = padded(np.arange(math.prod(X.shape)).reshape(X.shape), axes, last)
    Y, indices = _over_windows(axes, (values, places), (lowest, last), _larger)
    return Y, _column_major(indices, X.shape) if op.integer("storage_order", 0) else indices


lowering("MaxPool", rows=batched(_max_pool))(_max_pool)


def _column_major(indices: Any, shape: Sequence[int]) -> Any:
    """Return the same places, counted column by column within each image."""
    sizes = shape[2:]
    inner = indices % math.prod(sizes)
    images, place, step = indices - inner, jnp.zeros_like(inner), 1
    for axis, size in enumerate(sizes):
        place += inner // math.prod(sizes[axis + 1 :]) % size * step
        step *= size
    return images + place


def _larger(one: Any, other: Any) -> Any:
    """Return the larger value and its place; of equal ones, the first."""
    (x, i), (y, j) = one, other
    takes_other = (y > x) | ((y == x) & (j < i))
    return jnp.where(takes_other, y, x), jnp.where(takes_other, j, i)


def _spatial(X: Any) -> tuple[int, ...]:
    return tuple(range(2, X.ndim))


def _global_average_pool(op: Operator, X: Any) -> Any:
    """The mean over all spatial axes."""
    return jnp.mean(widened(X), _spatial(X), keepdims=True).astype(op.dtype())


lowering("GlobalAveragePool", rows=batched(_global_average_pool))(_global_average_pool)


def _global_max_pool(op: Operator, X: Any) -> Any:
    """The maximum over all spatial axes."""
    return jnp.max(X, _spatial(X), keepdims=True)


lowering("GlobalMaxPool", rows=batched(_global_max_pool))(_global_max_pool)


def _global_lp_pool(op: Operator, X: Any) -> Any:
    """(Σ |x|^p)^(1/p) over all spatial axes."""
    p = op.integer("p", 2)
    powers = jnp.abs(widened(X)) ** p
    return (powers.sum(_spatial(X), keepdims=True) ** (1 / p)).astype(op.dtype())


lowering("GlobalLpPool", rows=batched(_global_lp_pool))(_global_lp_pool)


@lowering("MaxUnpool")
def _max_unpool(op: Operator, X: Any, I: Any, output_shape: Any = None) -> Any:  # noqa: E741
    """Zeros, but each x where its index says, which counts through all that windows cover."""
    covered = (*X.shape[:2], *(_covered(axis) for axis in _unpooled(op, X)))
    flat = jnp.zeros(math.prod(covered), X.dtype)
    Y = flat.at[jnp.reshape(I, -1)].set(jnp.reshape(X, -1)).reshape(covered)
    if output_shape is None:
        return Y
    sizes = op.static(output_shape, "output_shape")
    pads = [(0, int(size) - have, 0) for size, have in zip(sizes, covered, strict=True)]
    return jax.lax.pad(Y, jnp.zeros((), X.dtype), pads)


def _unpooled(op: Operator, X: Any) -> list[Axis]:
    return window_axes(op, X.shape[2:], op.integers("kernel_shape"))


def _covered(axis: Axis) -> int:
    return (axis.size - 1) * axis.stride + axis.kernel - axis.begin - axis.end
