"""Images resized: each element of the result is a weighted sum of a few along each axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator, is_static
from whileback.engines.xla.operators.batches import widened
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


@dataclass(frozen=True)
class _Axis:
    """One axis that is resized; its scale is not always the quotient of its lengths.

    `width` is the new length before it is made a whole number.
    """

    number: int
    before: int
    after: int
    scale: Any
    width: Any
    start: Any = 0.0
    end: Any = 1.0


def _resize_rows(op: Operator, X: Any, *others: Any) -> Any:
    """Rows stay as they are, unless axis 0 is resized."""
    others = tuple(exact(op.trace, other) for other in others)
    scales = others[1] if len(others) > 1 else None
    apart = 0 not in _numbers(op, X) or (
        scales is not None and is_static(scales) and scales.size > 0 and scales[0] == 1
    )
    if isinstance(X, Rows) and apart:
        return X.like(_resize(op, X.buffer, *others))
    return _resize(op, exact(op.trace, X), *others)


@lowering("Resize", rows=_resize_rows)
def _resize(op: Operator, X: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """Y = X at points between its elements, by an interpolating filter along each axis."""
    X = jnp.asarray(X)
    is_crop = op.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    outside = np.zeros((), bool)
    Y = X if op.text("mode", "nearest") == "nearest" else _wide(X)
    for axis in _axes(op, X, roi if is_crop else None, scales, sizes):
        points = _points(op, axis)
        Y = _along(op, Y, axis, points)
        behind = (1,) * (X.ndim - 1 - axis.number)
        outside = outside | ((points < 0) | (points > axis.before - 1)).reshape(-1, *behind)
    if is_crop:
        Y = jnp.where(outside, jnp.asarray(op.number("extrapolation_value", 0.0), Y.dtype), Y)
    return _cast(Y, op.dtype())


def _wide(X: Any) -> Any:
    return widened(X) if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.float32)


def _cast(Y: Any, dtype: Any) -> Any:
    """Return whole numbers rounded, and as far as their type goes."""
    if Y.dtype == dtype or not np.issubdtype(dtype, np.integer):
        return Y.astype(dtype)
    limits = np.iinfo(dtype)
    return jnp.clip(jnp.rint(Y), limits.min, limits.max).astype(dtype)


def _numbers(op: Operator, X: Any) -> list[int]:
    return [axis % X.ndim for axis in op.integers("axes", range(X.ndim))]


def _axes(op: Operator, X: Any, roi: Any, scales: Any, sizes: Any) -> Iterator[_Axis]:
    """Yield the axes that are resized, or cropped; new lengths are found in float32."""
    numbers = _numbers(op, X)
    before = np.array([X.shape[axis] for axis in numbers])
    single = np.float32
    if scales is not None and scales.size:
        factors = op.static(scales, "scales").astype(single)
        widths = factors * before.astype(single)
        after = np.floor(widths)
    else:
        after = widths = op.static(sizes, "sizes")
        factors = after / before
        policy = op.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors[:] = factors.min() if policy == "not_larger" else factors.max()
            after = np.floor(factors.astype(single) * before.astype(single) + single(0.5))
    ends = np.array([[0.0], [1.0]]).repeat(len(numbers), 1)
    if roi is not None:
        ends = op.static(roi, "roi").reshape(2, -1)
    columns = numbers, before, after.astype(int), factors, widths, *ends
    for column in zip(*columns, strict=True):
        axis = _Axis(*column)
        if not (axis.scale == 1 and axis.before == axis.after and (axis.start, axis.end) == (0, 1)):
            yield axis


def _points(op: Operator, axis: _Axis) -> np.ndarray:
    """Return which point of the input each output stands for.

    The nearest place is found in float32, as ONNX Runtime does.
    """
    dtype: Any = np.float32 if op.text("mode", "nearest") == "nearest" else np.float64
    o: Any = np.arange(axis.after, dtype=dtype)
    scale, width, last = dtype(axis.scale), dtype(axis.width), dtype(axis.before - 1)
    half, is_single = dtype(0.5), axis.after == 1
    mode = op.text("coordinate_transformation_mode", "half_pixel")
    if mode == "asymmetric":
        return np.asarray(o / scale)
    if mode == "align_corners":
        return np.asarray(o * 0 if width == 1 else o * last / (width - 1))
    if mode == "tf_crop_and_resize":
        start, end = dtype(axis.start), dtype(axis.end)
        if is_single:
            return np.full(1, half * (start + end) * last)
        return np.asarray(start * last + o * ((end - start) * last / dtype(axis.after - 1)))
    if mode == "pytorch_half_pixel" and is_single:
        return np.zeros(1, dtype)
    shift = dtype(0)
    if mode == "half_pixel_symmetric":
        shift = dtype(axis.before) * half * (1 - dtype(axis.after) / width)
    return np.asarray(shift + (o + half) / scale - half)


def _along(op: Operator, X: Any, axis: _Axis, points: np.ndarray) -> Any:
    """Return X resized along one axis."""
    last = axis.before - 1
    if op.text("mode", "nearest") == "nearest":
        places = np.clip(_nearest(op, points), 0, last).astype(int)
        return jnp.take(X, places, axis.number)
    places, weights = _weights(op, axis, points)
    read = jnp.take(X, np.clip(places, 0, last), axis.number)
    shape = [1] * read.ndim
    shape[axis.number : axis.number + 2] = weights.shape
    return (read * weights.reshape(shape).astype(X.dtype)).sum(axis.number + 1)


def _nearest(op: Operator, points: np.ndarray) -> np.ndarray:
    half = np.float32(0.5)
    mode = op.text("nearest_mode", "round_prefer_floor")
    if mode == "round_prefer_floor":
        return np.asarray(np.ceil(points - half))
    if mode == "round_prefer_ceil":
        return np.asarray(np.floor(points + half))
    return np.asarray(np.floor(points) if mode == "floor" else np.ceil(points))


def _weights(op: Operator, axis: _Axis, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places around each point, maybe beyond the input's ends, and what they weigh."""
    is_linear = op.text("mode") == "linear"
    smooth = op.integer("antialias", 0)
    stretch = min(float(axis.scale), 1.0) if smooth else 1.0
    reach = int(np.ceil((1 if is_linear else 2) / stretch))
    places = np.floor(points).astype(int)[:, None] + np.arange(1 - reach, reach + 1)
    distances = np.abs((places - points[:, None]) * stretch)
    weights = np.maximum(1 - distances, 0) if is_linear else _cubic(op, distances)
    if op.integer("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < axis.before), weights, 0)
    total = weights.sum(1, keepdims=True)
    return places, weights / np.where(total == 0, 1, total)


def _cubic(op: Operator, d: np.ndarray) -> np.ndarray:
    """Return what lies at these distances weighs."""
    a = op.number("cubic_coeff_a", -0.75)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
