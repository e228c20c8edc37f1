"""How many trips a forward loop made, in the graph that follows it."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.rules.controlflow.tape import stack_of
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.scopes import LoopView, behind_identity

__all__ = ["count_trips", "is_true", "may_make_no_trip"]


def count_trips(op: Builder, view: LoopView) -> ir.Value:
    """Return the number of trips as INT64[1]: the length of a stack, or the limit."""
    if view.scan_inputs:
        return op.dim(view.scan_inputs[0].stack, view.scan_inputs[0].axis)
    stacks = stacks_of(view)
    if not stacks and view.limit is not None and runs_to_the_limit(view):
        return op.Max(op.Reshape(view.limit, [1]), 0)
    if not stacks and view.trip is not None:
        stacks = [stack_of(op, view, view.trip)]
    return op.Shape(stacks[0], start=0, end=1)


def stacks_of(view: LoopView) -> list[ir.Value]:
    """Return the stacks that the loop writes along axis 0, added ones included."""
    declared = {scan.stack: scan for scan in view.scan_outputs}
    outputs = view.node.outputs[len(view.carries) :]
    return [v for v in outputs if v not in declared or declared[v].axis == 0]


def runs_to_the_limit(view: LoopView) -> bool:
    """Tell whether only the limit ends the loop: its condition is absent or always true."""
    if view.proceed is None or not (view.start is None or is_true(view.start)):
        return False
    proceed = behind_identity(view.proceed)
    return proceed is view.body.inputs[1] or is_true(proceed)


def may_make_no_trip(view: LoopView) -> bool:
    """Tell whether the loop could make no trip at all, as far as the graph tells."""
    for scan in view.scan_inputs:
        if scan.stack.shape is not None and isinstance(scan.stack.shape[scan.axis], int):
            return bool(scan.stack.shape[scan.axis] == 0)
    limit = known_ints(view.limit)
    return limit is None or not runs_to_the_limit(view) or limit[0] <= 0


def is_true(value: ir.Value) -> bool:
    """Tell whether a condition is known always to hold."""
    known = known_ints(behind_identity(value))
    return known is not None and all(known)
