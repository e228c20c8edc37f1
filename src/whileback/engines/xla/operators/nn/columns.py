"""Images made of columns, each of which is what one window holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import batched
from whileback.engines.xla.operators.nn.windows import Axis, window_axes
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _col2im(op: Operator, X: Any, image_shape: Any, block_shape: Any) -> Any:
    """Y = the sum of what all windows hold, each where it stands in the image."""
    sizes = [int(size) for size in op.static(image_shape, "image_shape")]
    kernel = [int(size) for size in op.static(block_shape, "block_shape")]
    axes = window_axes(op, sizes, kernel)
    counts = [axis.count for axis in axes]
    X = jnp.asarray(X)
    parts = X.reshape(X.shape[0], -1, math.prod(kernel), *counts)
    Y = jnp.zeros((*parts.shape[:2], *sizes), X.dtype)
    for index, place in enumerate(itertools.product(*(range(axis.kernel) for axis in axes))):
        Y = Y + _spread(parts[:, :, index], axes, place)
    return Y


lowering("Col2Im", rows=batched(_col2im))(_col2im)


def _spread(part: jax.Array, axes: Sequence[Axis], place: Sequence[int]) -> jax.Array:
    """Return an image of what all windows hold in one place."""
    pads = [(0, 0, 0), (0, 0, 0)]
    for axis, k in zip(axes, place, strict=True):
        low = k * axis.dilation - axis.begin
        taken = (axis.count - 1) * axis.stride + 1
        pads.append((low, axis.size - low - taken, axis.stride - 1))
    return jax.lax.pad(part, jnp.zeros((), part.dtype), pads)
