"""Buffers: carried values of which a trip writes a small part."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from whileback.gradient.rules.controlflow.variation import shape_varies
from whileback.gradient.rules.inputs import required
from whileback.graph.builder import Builder
from whileback.graph.scopes import Carry, LoopView, behind_identity, is_standard
from whileback.graph.shapes import rank, static_shape

__all__ = ["Write", "small_writes"]

# A buffer of no more than so many times what a trip writes is cheap to copy and to keep.
FEW = 16


@dataclass(frozen=True)
class Write:
    """How the node writes to a buffer: `count` parts, each at coordinates along the first axes.

    There are `depth` such axes: all of them for `ScatterElements` along `axis`, of which the parts
    are single elements.
    """

    carry: Carry
    node: ir.Node
    axis: int | None
    depth: int
    count: int

    @property
    def indices(self) -> ir.Value:
        """The places that the trip writes to."""
        return required(self.node, 1)

    @property
    def updates(self) -> ir.Value:
        """What it writes there."""
        return required(self.node, 2)

    @property
    def replaces(self) -> bool:
        """Tell whether nothing is left of what was at the places."""
        return self.node.attributes.get_string("reduction", "none") == "none"

    @property
    def versions(self) -> set[ir.Value]:
        """The buffer before the write and after it."""
        return {self.carry.input, self.node.outputs[0], self.carry.output}

    def get(self, op: Builder, buffer: ir.Value, indices: ir.Value) -> ir.Value:
        """Return the parts of a buffer at some places."""
        if self.axis is None:
            return op.GatherND(buffer, indices)
        return op.GatherElements(buffer, indices, axis=self.axis)

    def put(self, op: Builder, buffer: ir.Value, indices: ir.Value, parts: ir.Value) -> ir.Value:
        """Return a buffer with other parts at some places."""
        if self.axis is None:
            return op.ScatterND(buffer, indices, parts)
        return op.ScatterElements(buffer, indices, parts, axis=self.axis)

    def is_small(self) -> bool:
        """Tell whether a trip writes something, and only a small part of the buffer."""
        places = list(self.carry.initial.shape or ())[: self.depth]
        known = [dim for dim in places if isinstance(dim, int)]
        return self.count > 0 and (len(known) < len(places) or prod(known) > FEW * self.count)


def small_writes(view: LoopView) -> list[Write]:
    """Return what a trip writes to buffers, of each a part of constant size."""
    found = (_write_to(carry) for carry in view.carries)
    small = [write for write in found if write is not None and write.is_small()]
    varying = shape_varies(view) if small else set()
    return [write for write in small if write.carry.input not in varying]


def _write_to(carry: Carry) -> Write | None:
    node = behind_identity(carry.output).producer()
    if node is None or not is_standard(node, "ScatterND", "ScatterElements"):
        return None
    count, dims = rank(carry.initial), static_shape(required(node, 1))
    if behind_identity(required(node)) is not carry.input or not count or not dims:
        return None
    if node.op_type == "ScatterND":
        return Write(carry, node, None, dims[-1], prod(dims[:-1]))
    return Write(carry, node, node.attributes.get_int("axis", 0) % count, count, prod(dims))
