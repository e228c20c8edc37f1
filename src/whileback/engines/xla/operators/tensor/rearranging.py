"""Operators that move elements between axes and along them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("DepthToSpace", rows="each")
def depth_to_space(op: Operator, X: Any) -> Any:
    """Channels become blocks of elements of the plane."""
    count, channels, height, width = X.shape
    size = op.integer("blocksize")
    rest = channels // size**2
    if op.text("mode", "DCR") == "DCR":
        blocks = X.reshape(count, size, size, rest, height, width)
        moved = jnp.transpose(blocks, (0, 3, 4, 1, 5, 2))
    else:
        blocks = X.reshape(count, rest, size, size, height, width)
        moved = jnp.transpose(blocks, (0, 1, 4, 2, 5, 3))
    return moved.reshape(count, rest, height * size, width * size)


@lowering("SpaceToDepth", rows="each")
def space_to_depth(op: Operator, X: Any) -> Any:
    """Blocks of elements of the plane become channels."""
    count, channels, height, width = X.shape
    size = op.integer("blocksize")
    blocks = X.reshape(count, channels, height // size, size, width // size, size)
    order = (0, 3, 5, 1, 2, 4) if op.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = jnp.transpose(blocks, order)
    return moved.reshape(count, channels * size**2, height // size, width // size)


@lowering("ReverseSequence")
def reverse_sequence(op: Operator, X: Any, lengths: Any) -> Any:
    """The first elements of each sequence, as many as it is long, in reverse."""
    time, batch = op.integer("time_axis", 0), op.integer("batch_axis", 1)
    steps = np.arange(X.shape[time])[:, None]
    places = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    index = places if time < batch else places.T
    return jnp.take_along_axis(X, index.reshape(*index.shape, *(1,) * (X.ndim - 2)), time)
