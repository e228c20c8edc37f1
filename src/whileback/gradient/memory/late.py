"""What trips do to a carried value that none of them reads: stacked, and done after the loop.

ONNX knows no writing in place: a trip that changes a part of a tensor, or makes it longer, copies
all of it. Where no trip reads the tensor, the parts can wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import onnx_ir as ir

from whileback.gradient.memory.carries import replace_carry
from whileback.gradient.rules.controlflow.tape import stack_of
from whileback.graph.builder import Builder
from whileback.graph.cleanup import prune
from whileback.graph.scopes import Carry, LoopView, is_standard, loop_view

__all__ = ["Late", "is_read", "put_off"]


class Late(Protocol):
    """What a node does to a carried value in a trip, and how all trips are made up for later."""

    @property
    def carry(self) -> Carry:
        """The carried value."""

    @property
    def node(self) -> ir.Node:
        """The only node that reads it."""

    def rows(self, op: Builder) -> list[ir.Value]:
        """Return what else the node reads of a trip."""

    def result(self, op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        """Emit the value after the loop, from the stacks of these."""


def put_off(
    op: Builder, loops: Sequence[ir.Node], find: Callable[[LoopView], Iterator[Late]]
) -> None:
    """Let loops, of which the inner ones come last, stack what they write but do not read.

    `op` is a builder for the graph that the outermost of them are in.
    """
    for node in reversed(loops):
        while (late := next(find(loop_view(node)), None)) is not None:
            _put_off(op, loop_view(node), late)


def is_read(
    body: ir.Graph, carry: Carry, node: ir.Node, place: int, *, keeps_shape: bool = False
) -> bool:
    """Tell whether anything but the node, in one place, reads a carried value or a copy of it.

    Its shape may be read as well, if the node `keeps_shape`.
    """
    found = [carry.input]
    for value in found:
        for use in value.uses():
            copies = is_standard(use.node, "Identity") and use.node.graph is body
            if copies or (use.node is node and use.idx == place):
                found.append(use.node.outputs[0])
            elif not (keeps_shape and is_standard(use.node, "Shape", "Size")):
                return True
    results = [value for value in body.outputs if value in found]
    return node.outputs[0] not in found or results != [carry.output]


def _put_off(op: Builder, view: LoopView, late: Late) -> None:
    """Put in the place of a carried value stacks of what is done to it."""
    body = op.within(view.body)
    stacks = [stack_of(op, view, row) for row in body.own(late.rows(body))]
    replace_carry(op, view, late.carry, "written", lambda op: late.result(op, stacks))
    # What asks for the size after the node finds it before the loop.
    late.node.outputs[0].replace_all_uses_with(late.carry.initial)
    prune(view.body)
