"""Buffers that trips read as a whole: the way back undoes the writes, one after the other.

To keep such a buffer from every trip takes as many buffers. What a trip writes over takes its rows
alone, and put back where it was, it turns the buffer after the trip into the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.rules.controlflow.reverse import State
from whileback.gradient.rules.controlflow.tape import replace_uses
from whileback.gradient.rules.controlflow.writes import Write
from whileback.graph.builder import Builder
from whileback.graph.moving import taken_out
from whileback.graph.scopes import LoopView, walk

__all__ = ["Undo", "prepare_undo"]


@dataclass(frozen=True)
class Undo:
    """A write, with the values of the forward body that undo it."""

    write: Write
    places: ir.Value
    overwritten: ir.Value

    @property
    def values(self) -> tuple[ir.Value, ir.Value]:
        """What has to be kept for that."""
        return self.places, self.overwritten

    @property
    def after(self) -> ir.Value:
        """The buffer after the write, in the forward body."""
        return self.write.node.outputs[0]

    def emit(self, op: Builder, after: ir.Value) -> State:
        """Let a reverse body carry the buffer and read it from there.

        Args:
            op: emits into the reverse body.
            after: stands for the buffer after the trip.
        """
        users, nodes = set(walk(op.graph)), taken_out(op.graph)
        before = self.write.put(op, after, self.places, self.overwritten)
        op.graph.extend(nodes)
        carry = self.write.carry
        replace_uses(carry.input, before, users)
        for value in (self.after, carry.output):
            replace_uses(value, after, users)
        op.graph.outputs.append(before)
        return State(carry.result, after, before)


def prepare_undo(op: Builder, view: LoopView, write: Write) -> Undo:
    """Let the forward body tell what a write overwrites, and where."""
    body = op.within(view.body)
    (places,) = body.own([write.indices])
    return Undo(write, places, write.get(body, write.carry.input, places))
