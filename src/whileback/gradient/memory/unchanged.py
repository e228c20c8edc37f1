"""Values that a loop carries and no trip changes: the body reads them from outside instead.

As carried values they would have a cotangent of their size in every trip; the gradient of what is
captured is a sum over trips, which may be made at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.memory.carries import replace_carry
from whileback.graph.builder import Builder
from whileback.graph.scopes import Carry, LoopView, behind_identity, loop_view

__all__ = ["capture_unchanged"]


def capture_unchanged(op: Builder, loops: Sequence[ir.Node]) -> None:
    """Let loops capture what they carry unchanged; one that has no other result keeps it."""
    for node in loops:
        while len(node.outputs) > 1 and (carry := _unchanged(loop_view(node))) is not None:
            _capture(op, loop_view(node), carry)


def _capture(op: Builder, view: LoopView, carry: Carry) -> None:
    replace_carry(op, view, carry, "unchanged", lambda op: op.Identity(carry.initial))


def _unchanged(view: LoopView) -> Carry | None:
    """Return a value that every trip hands on, and that is nothing else of what a trip returns."""
    results = list(view.body.outputs)
    for carry in view.carries:
        returned = results.count(carry.input) + results.count(carry.output)
        once = returned == (2 if carry.output is carry.input else 1)
        # The body may be all that tells a rank.
        known = carry.initial.shape is not None or carry.input.shape is None
        if once and known and behind_identity(carry.output) is carry.input:
            return carry
    return None
