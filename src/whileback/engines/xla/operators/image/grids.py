"""Grids of points, at which images are sampled."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import batched, widened
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _affine_grid(op: Operator, theta: Any, size: Any) -> Any:
    """Y = theta·(x, y, 1), or theta·(x, y, z, 1), at points spread from -1 to 1.

    What ONNX defines it by drops the axis of a batch of one.
    """
    theta = widened(theta)
    sizes = [int(length) for length in op.static(size, "size")[2:]]
    places = [_spread(length, bool(op.integer("align_corners", 0))) for length in sizes]
    axes = np.meshgrid(*places, indexing="ij")[::-1]
    points = jnp.asarray(np.stack([*axes, np.ones(sizes)], -1), theta.dtype)
    return jnp.einsum("nij,...j->n...i", theta, points, precision="highest").astype(op.dtype())


lowering("AffineGrid", rows=batched(_affine_grid))(_affine_grid)


def _spread(length: int, corners: bool) -> np.ndarray:
    """Return where elements lie if -1 and 1 are the outer ones' centres, or their edges.

    The centre of an only element is 1, as ONNX Runtime has it.
    """
    if corners:
        return np.linspace(1, -1, length)[::-1]
    return (2 * np.arange(length) + 1) / length - 1
