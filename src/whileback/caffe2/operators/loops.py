"""Loops that operators are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.caffe2.reading.emitter import Emitter

__all__ = ["repeat"]

Trip = Callable[[Emitter, ir.Value, list[ir.Value]], Sequence[ir.Value]]


def repeat(op: Emitter, count: ir.Value, starts: Sequence[ir.Value], trip: Trip) -> list[ir.Value]:
    """Emit a loop; return what it carries in the end, then the stacks of its rows.

    Args:
        op: emits into the graph around the loop.
        count: the number of trips, a scalar INT64.
        starts: what is carried into the first trip; types and shapes stay as they are.
        trip: called as `trip(op, number, carried)`, emits a trip and returns what it carries on,
            then rows, which are stacked along a new first axis.
    """
    body = op.inside("trip")
    number = op.new_scalar("number", ir.DataType.INT64)
    proceed = op.new_scalar("proceed", ir.DataType.BOOL)
    carried = [
        ir.Value(name=op.names.fresh("carried"), type=start.type, shape=start.shape)
        for start in starts
    ]
    body.graph.inputs.extend([number, proceed, *carried])
    results = trip(body, number, carried)
    body.graph.outputs.extend(body.own([proceed, *results]))
    found = op.emit("Loop", [count, None, *starts], {"body": body.graph}, outputs=len(results))
    for value, start in zip(found, starts, strict=False):
        value.shape = start.shape
    return list(found)
