"""How many trips a loop will make, told before it runs."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.rules.controlflow.ahead import run_ahead
from whileback.gradient.rules.controlflow.trips import runs_to_the_limit
from whileback.graph.builder import Builder
from whileback.graph.scopes import LoopView

__all__ = ["count_ahead"]


def count_ahead(op: Builder, view: LoopView) -> ir.Value:
    """Return the number of trips as INT64[1], from values that are there before the loop.

    Where only its condition ends the loop, a copy of it runs ahead, which computes no more than
    the condition needs.
    """
    if view.scan_inputs:
        return op.dim(view.scan_inputs[0].stack, view.scan_inputs[0].axis)
    if view.limit is not None and runs_to_the_limit(view):
        return op.Max(op.Reshape(view.limit, [1]), 0)
    (count,) = run_ahead(op, view.node, [], [lambda inside, number, _: inside.Add(number, 1)])
    return op.Reshape(count, [1])
