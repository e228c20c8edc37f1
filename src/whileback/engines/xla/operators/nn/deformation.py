"""Convolutions whose windows are deformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import widened
from whileback.engines.xla.operators.image.sampling import (
    interpolated,
    linear_taps,
    zeros_outside,
)
from whileback.engines.xla.operators.nn.windows import Axis, window_axes
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("DeformConv")
def _deform_conv(op: Operator, X: Any, W: Any, offset: Any, B: Any = None, mask: Any = None) -> Any:
    """Y = X ∗ W + B, where each element of a window is read beside its place, and masked."""
    X, W, offset = widened(X), widened(W), widened(offset)
    count, kernel, output = X.shape[0], W.shape[2:], offset.shape[2:]
    axes = window_axes(op, X.shape[2:], kernel)
    parts = op.integer("offset_group", 1)
    offsets = offset.reshape(count * parts, *kernel, len(kernel), *output)
    points = [
        jnp.take(offsets, k, 1 + len(kernel)) + _places(axes, k, output) for k in range(len(axes))
    ]
    images = X.reshape(count * parts, -1, *X.shape[2:])
    read = interpolated(images, list(map(linear_taps, points)), zeros_outside)
    if mask is not None:
        read = read * widened(mask).reshape(count * parts, 1, *kernel, *output)
    groups = op.integer("group", 1)
    windows = read.reshape(count, groups, W.shape[1] * int(np.prod(kernel)), -1)
    weights = W.reshape(groups, W.shape[0] // groups, -1)
    Y = jnp.einsum("ngkp,gmk->ngmp", windows, weights, precision="highest")
    Y = Y.reshape(count, W.shape[0], *output)
    if B is not None:
        Y = Y + widened(B).reshape(-1, *(1,) * len(output))
    return Y.astype(op.dtype())


def _places(axes: Sequence[Axis], k: int, output: Sequence[int]) -> np.ndarray:
    """Return where windows stand along the kth axis, [*kernel, *output] or 1 in their stead."""
    axis, rank = axes[k], len(axes)
    inner = np.arange(axis.kernel) * axis.dilation
    outer = np.arange(output[k]) * axis.stride - axis.begin
    shape = [1] * (2 * rank)
    shape[k], shape[rank + k] = axis.kernel, output[k]
    return np.asarray((inner[:, None] + outer).reshape(shape))
