"""The way back undoes what trips do to a carried value that it reads, one trip after the other."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.rules.controlflow.changes import Change, Step
from whileback.gradient.rules.controlflow.reverse import State
from whileback.gradient.rules.controlflow.tape import replace_uses
from whileback.graph.builder import Builder
from whileback.graph.moving import taken_out
from whileback.graph.scopes import LoopView, walk

__all__ = ["Undo", "prepare_undo"]


@dataclass(frozen=True)
class Undo:
    """A change, with the values of the forward body that undo each of its steps."""

    change: Change
    kept: tuple[tuple[Step, tuple[ir.Value, ...]], ...]

    @property
    def values(self) -> list[ir.Value]:
        """What has to be kept for that; what is the same in every trip is at hand."""
        inside = self.change.carry.input.graph
        found = [value for _, values in self.kept for value in values]
        return [value for value in found if (node := value.producer()) and node.graph is inside]

    def emit(self, op: Builder, after: ir.Value) -> State:
        """Let a reverse body carry the value and read it from there.

        Args:
            op: emits into the reverse body.
            after: stands for the value after the trip.
        """
        users, nodes, carry = set(walk(op.graph)), taken_out(op.graph), self.change.carry
        value = after
        known = {carry.output: after}
        for step, values in reversed(self.kept):
            known[step.after] = value
            value = step.restore(op, value, *values)
            known[step.before] = value
        known[carry.input] = value
        op.graph.extend(nodes)
        for version, restored in known.items():
            replace_uses(version, restored, users)
        op.graph.outputs.append(value)
        return State(carry.result, after, value)


def prepare_undo(op: Builder, view: LoopView, change: Change) -> Undo:
    """Let the forward body tell what undoes a change."""
    body = op.within(view.body)
    return Undo(change, tuple((step, tuple(step.keep(body))) for step in change.steps))
