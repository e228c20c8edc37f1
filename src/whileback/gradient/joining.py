"""Adding cotangents that are parts amid zeros, as those of slices are.

A value that is cut into slices, as the halves of a rotary embedding or the gates of an exported
LSTM are, gets from each a cotangent with zeros around it. Parts that touch are joined instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard

__all__ = ["joined"]


@dataclass(frozen=True)
class _Placed:
    """A part and how many zeros stand before and after it along an axis."""

    part: ir.Value
    axis: int
    before: int
    length: int
    after: int

    @property
    def total(self) -> int:
        """The length of the axis with the zeros."""
        return self.before + self.length + self.after


def joined(op: Builder, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Return a + b if both are parts amid zeros, of one value, that touch; else None."""
    parts = [placed for placed in map(_placed, (a, b)) if placed is not None]
    parts.sort(key=lambda placed: placed.before)
    if len(parts) < 2 or parts[0].axis != parts[1].axis:
        return None
    first, last = parts
    if first.before + first.length != last.before or first.total != last.total:
        return None
    part = op.Concat(first.part, last.part, axis=first.axis)
    axes = range(len(first.part.shape or ()))
    zeros = [
        number * (axis == first.axis) for number in (first.before, last.after) for axis in axes
    ]
    return op.Pad(part, zeros) if any(zeros) else part


def _placed(value: ir.Value) -> _Placed | None:
    """Return a value as a part amid zeros, if it was made of one."""
    node = value.producer()
    if node is None or not is_standard(node, "Pad") or len(node.inputs) != 2:
        return None
    part, zeros = node.inputs[0], known_ints(node.inputs[1])
    if part is None or part.shape is None or not zeros or node.attributes or min(zeros) < 0:
        return None
    count = len(part.shape)
    axes = [axis for axis in range(count) if zeros[axis] or zeros[axis + count]]
    length = part.shape[axes[0]] if len(axes) == 1 else None
    if not isinstance(length, int):
        return None
    return _Placed(part, axes[0], zeros[axes[0]], length, zeros[axes[0] + count])
