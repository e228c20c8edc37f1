"""Regions of images, read into bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import widened
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@dataclass(frozen=True)
class _Samples:
    """Points along one axis, [region, bin, sample]: two places, their weights, and which count."""

    taps: tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    counts: jax.Array  # [region, 1, sample]


@lowering("RoiAlign")
def _roi_align(op: Operator, X: Any, rois: Any, batch_indices: Any) -> Any:
    """Y = the mean, or maximum, over a grid of points in each bin of each region of an image."""
    X, rois = widened(X), widened(rois)
    rows, columns = (_samples(op, rois, axis, X.shape[2 + axis]) for axis in (0, 1))
    pixels = jnp.moveaxis(X, 1, -1)
    image = jnp.reshape(batch_indices, (-1, 1, 1, 1, 1))
    counts = _over_grid(rows.counts, columns.counts) > 0
    is_mean = op.text("mode", "avg") == "avg"
    total: Any = None
    for y, height in rows.taps:
        for x, width in columns.taps:
            read = pixels[image, y[:, :, :, None, None], x[:, None, None]]
            part = read * _over_grid(height, width)
            combined = jnp.add if is_mean else jnp.maximum
            total = part if total is None else combined(total, part)
    if is_mean:
        number = jnp.maximum(counts.sum((2, 4), dtype=X.dtype), 1)
        Y = jnp.where(counts, total, 0).sum((2, 4)) / number
    else:
        largest = jnp.where(counts, total, -jnp.inf).max((2, 4), initial=-jnp.inf)
        Y = jnp.where(counts.any((2, 4)), largest, 0)
    return jnp.moveaxis(Y, -1, 1).astype(op.dtype())


def _over_grid(rows: Any, columns: Any) -> Any:
    """Return products of what rows and columns have: [region, bin, sample, bin, sample, 1]."""
    return rows[:, :, :, None, None, None] * columns[:, None, None, :, :, None]


def _samples(op: Operator, rois: Any, axis: int, size: int) -> _Samples:
    """Return the points along one axis; regions name theirs as x and y."""
    bins = op.integer(("output_height", "output_width")[axis], 1)
    half = op.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    start, end = (
        rois[:, column] * rois.dtype.type(op.number("spatial_scale", 1.0)) - 0.5 * half
        for column in (1 - axis, 3 - axis)
    )
    length = end - start if half else jnp.maximum(end - start, 1)
    width = length / bins
    each = op.integer("sampling_ratio", 0)
    number = jnp.full(len(width), each) if each > 0 else jnp.ceil(width).astype(jnp.int64)
    most = number.max(initial=0)
    room = each or int(op.static(most, f"samples along axis {axis}"))
    sample, number = jnp.arange(room), number[:, None, None]
    inside = (sample + 0.5) / jnp.maximum(number, 1)
    begins = start[:, None] + np.arange(bins) * width[:, None]
    points = begins[:, :, None] + inside * width[:, None, None]
    return _Samples(_taps(points, size), (sample < number).astype(rois.dtype))


def _taps(points: Any, size: int) -> Any:
    """Return the places around points, which weigh nothing for points further outside than 1."""
    inside = (points >= -1) & (points <= size)
    points = jnp.clip(points, 0, size - 1)
    low = jnp.floor(points)
    share = points - low
    place = low.astype(jnp.int64)
    after = jnp.minimum(place + 1, size - 1)
    return (place, jnp.where(inside, 1 - share, 0)), (after, jnp.where(inside, share, 0))


@lowering("MaxRoiPool")
def _max_roi_pool(op: Operator, X: Any, rois: Any) -> Any:
    """Y = the largest element of each bin of each region; 0 where a bin is empty."""
    X, rois = jnp.asarray(X), widened(rois)
    images = X[rois[:, 0].astype(jnp.int64)]
    rows, columns = (_in_bins(op, rois, axis, X.shape[2 + axis]) for axis in (0, 1))
    low = jnp.array(-jnp.inf, X.dtype)
    tall = jnp.where(rows[:, None, :, :, None], images[:, :, None], low).max(3)
    Y = jnp.where(columns[:, None, None], tall[:, :, :, None], low).max(4)
    filled = rows.any(2)[:, None, :, None] & columns.any(2)[:, None, None]
    return jnp.where(filled, Y, 0).astype(op.dtype())


def _in_bins(op: Operator, rois: Any, axis: int, size: int) -> Any:
    """Tell which places along an axis belong to which bin, [region, bin, place]."""
    bins = op.integers("pooled_shape")[axis]
    corners = rois[:, np.array([2 - axis, 4 - axis])] * op.number("spatial_scale", 1.0)
    rounded = jnp.trunc(corners + jnp.copysign(0.5, corners))
    start = rounded[:, :1]
    width = jnp.maximum(rounded[:, 1:] - start + 1, 1) / bins
    begins = start + jnp.floor(width * np.arange(bins))
    ends = start + jnp.ceil(width * np.arange(1, bins + 1))
    places = np.arange(size)
    return (places >= begins[:, :, None]) & (places < ends[:, :, None])
