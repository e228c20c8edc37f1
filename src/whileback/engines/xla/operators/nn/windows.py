"""Where the windows of convolutions and pools lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator

__all__ = ["Axis", "halves", "padded", "window_axes"]


@dataclass(frozen=True)
class Axis:
    """The windows along one spatial axis.

    `begin` and `end` are the paddings, to which ceil mode adds `extra` behind, maybe less than 0.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    extra: int = 0

    @property
    def extent(self) -> int:
        """How many elements a window spans."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        """How many windows there are."""
        room = self.size + self.begin + self.end + self.extra - self.extent
        return max(room // self.stride + 1, 0)

    def members(self, include_padding: bool) -> np.ndarray:
        """Return how many elements each window has; those of the paddings only if asked for."""
        starts = np.arange(self.count)[:, None] * self.stride - self.begin
        places = starts + np.arange(self.kernel) * self.dilation
        low, high = (-self.begin, self.size + self.end) if include_padding else (0, self.size)
        return np.asarray(((places >= low) & (places < high)).sum(1))


def window_axes(op: Operator, sizes: Sequence[int], kernel: Sequence[int]) -> list[Axis]:
    """Return the windows that a node's attributes describe, for each spatial axis."""
    rank = len(kernel)
    strides = op.integers("strides", (1,) * rank)
    dilations = op.integers("dilations", (1,) * rank)
    pads = op.integers("pads", (0,) * 2 * rank)
    auto_pad = op.text("auto_pad", "NOTSET")
    if auto_pad == "VALID":
        pads = (0,) * 2 * rank
    columns = sizes, kernel, strides, dilations, pads[:rank], pads[rank:]
    axes = [Axis(*map(int, column)) for column in zip(*columns, strict=True)]
    if auto_pad.startswith("SAME"):
        return [_same(axis, auto_pad) for axis in axes]
    return [_stretched(axis) for axis in axes] if op.integer("ceil_mode", 0) else axes


def _same(axis: Axis, auto_pad: str) -> Axis:
    """Pad so that there is one window for each `stride` elements."""
    count = -(-axis.size // axis.stride)
    needed = (count - 1) * axis.stride + axis.extent
    begin, end = halves(max(needed - axis.size, 0), auto_pad)
    return Axis(axis.size, axis.kernel, axis.stride, axis.dilation, begin, end)


def halves(total: int, auto_pad: str) -> tuple[int, int]:
    """Split a padding in two; the second half is the larger one for SAME_UPPER."""
    small = total // 2
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)


def _stretched(axis: Axis) -> Axis:
    """Complete the last window, if it starts before the padding at the end."""
    room = axis.size + axis.begin + axis.end
    count = -(-(room - axis.extent) // axis.stride) + 1
    if (count - 1) * axis.stride >= axis.size + axis.begin:
        count -= 1
    extra = (count - 1) * axis.stride + axis.extent - room
    return Axis(axis.size, axis.kernel, axis.stride, axis.dilation, axis.begin, axis.end, extra)


def padded(X: Any, axes: Sequence[Axis], value: Any) -> jax.Array:
    """Return X with that value in the paddings; the spatial axes are the last ones."""
    pads = [(0, 0, 0)] * (X.ndim - len(axes))
    pads += [(axis.begin, axis.end + axis.extra, 0) for axis in axes]
    return jax.lax.pad(jnp.asarray(X), jnp.asarray(value, X.dtype), pads)
