"""Images read at points between their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import widened
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__ = ["cubic_weights", "interpolated", "linear_taps", "zeros_outside"]

Tap = tuple[Any, Any]  # places along an axis, and how much each weighs
Padding = Callable[[Any, int], Tap]


def linear_taps(points: Any) -> list[Tap]:
    """Return the two places around each point."""
    base = jnp.floor(points)
    return [(base, 1 - (points - base)), (base + 1, points - base)]


def cubic_weights(t: Any, a: float = -0.75) -> list[Any]:
    """Return what the four places around a point weigh; t is how far it is from the second."""

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


def _cubic_taps(points: Any) -> list[Tap]:
    base = jnp.floor(points)
    weights = cubic_weights(points - base)
    return [(base + k - 1, weight) for k, weight in enumerate(weights)]


def _nearest_taps(points: Any) -> list[Tap]:
    return [(jnp.rint(points), jnp.ones_like(points))]


_TAPS = {"nearest": _nearest_taps, "linear": linear_taps, "cubic": _cubic_taps}


def zeros_outside(places: Any, size: int) -> Tap:
    """Return indices, and 0 where the places lie outside."""
    inside = (places >= 0) & (places <= size - 1)
    return _indices(places, size), inside


def _indices(places: Any, size: int) -> Any:
    return jnp.clip(places, 0, size - 1).astype(jnp.int32)


def interpolated(X: Any, taps: Sequence[Sequence[Tap]], padding: Padding) -> Any:
    """Return [N, C, *P]: images [N, C, *S] at points, by their taps along each axis, [N, *P]."""
    sizes = X.shape[2:]
    flat = X.reshape(*X.shape[:2], math.prod(sizes))
    total: Any = None
    for corner in itertools.product(*taps):
        index, weight = jnp.int32(0), jnp.ones((), X.dtype)
        for (places, share), size in zip(corner, sizes, strict=True):
            place, counts = padding(places, size)
            index, weight = index * size + place, weight * jnp.where(counts, share, 0)
        read = jax.vmap(lambda image, at: image[:, at])(flat, index)
        part = read * weight[:, None]
        total = part if total is None else total + part
    return total


def _grid_rows(op: Operator, X: Any, grid: Any) -> Any:
    """Each image has a grid of its own."""
    if isinstance(X, Rows) and isinstance(grid, Rows):
        capacity = min(X.capacity, grid.capacity)
        return X.like(_grid_sample(op, X.buffer[:capacity], grid.buffer[:capacity]))
    return _grid_sample(op, exact(op.trace, X), exact(op.trace, grid))


@lowering("GridSample", rows=_grid_rows)
def _grid_sample(op: Operator, X: Any, grid: Any) -> Any:
    """Y = X at the points that the grid names; -1 and 1 are the ends of an axis."""
    sizes = X.shape[2:]
    corners = bool(op.integer("align_corners", 0))
    padding = _PADDINGS[op.text("padding_mode", "zeros")]
    taps = _TAPS[op.text("mode", "linear")]
    found = []
    for axis, size in enumerate(sizes):
        place = widened(grid)[..., len(sizes) - 1 - axis]
        points = (place + 1) / 2 * (size - 1) if corners else ((place + 1) * size - 1) / 2
        found.append(taps(_moved_inside(op, points, size, corners)))
    images = jnp.asarray(X)
    images = images if images.dtype == jnp.float64 else images.astype(jnp.float32)
    Y = interpolated(images, found, lambda places, size: padding(places, size, corners))
    return Y.astype(op.dtype())


def _moved_inside(op: Operator, points: Any, size: int, corners: bool) -> Any:
    """Return the points moved onto the image, unless there are zeros around it.

    By a border, cubic interpolation moves only what it reads, as PyTorch and ONNX Runtime do.
    """
    mode = op.text("padding_mode", "zeros")
    if mode == "border" and op.text("mode", "linear") != "cubic":
        return jnp.clip(points, 0, size - 1)
    return _reflected(points, size, corners) if mode == "reflection" else points


def _reflected(places: Any, size: int, corners: bool) -> Any:
    """Return places thrown back by the ends: the outer elements' centres, or their edges."""
    low, width = (0.0, size - 1.0) if corners else (-0.5, float(size))
    if width == 0:
        return jnp.zeros_like(places)
    distance = jnp.mod(jnp.abs(places - low), 2 * width)
    return low + jnp.minimum(distance, 2 * width - distance)


def _border(places: Any, size: int, corners: bool) -> Tap:
    return _indices(places, size), True


def _reflection(places: Any, size: int, corners: bool) -> Tap:
    return _indices(_reflected(places, size, corners), size), True


def _zeros(places: Any, size: int, corners: bool) -> Tap:
    return zeros_outside(places, size)


_PADDINGS = {"zeros": _zeros, "border": _border, "reflection": _reflection}
