"""Loops written out trip by trip: those that carry sequences, or other shapes in every trip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.facts import Trace
from whileback.engines.xla.interpret import Scope, exact, run_graph
from whileback.errors import EngineError
from whileback.graph.scopes import LoopView

__all__ = ["unrolled"]

MOST = 4096


def unrolled(scope: Scope, view: LoopView, trace: Trace) -> list[Any]:
    """Run the loop's body as often as it makes trips, which the program is compiled for."""
    carried = [scope[carry.initial] for carry in view.carries]
    stacks: list[list[Any]] = [[] for _ in view.scan_outputs]
    proceed = scope[view.start]
    for trip, rows in enumerate(_rows(scope, view, trace)):
        inner = _Trip(scope, view, trace, trip)
        if proceed is not None and not inner.trace.static("proceed", proceed).item():
            break
        proceed, carried, written = inner.run(rows, carried)
        for stack, row in zip(stacks, written, strict=True):
            stack.append(row)
    outputs = zip(view.scan_outputs, stacks, strict=True)
    stacked = {output: _stacked(output, rows) for output, rows in outputs}
    for each in trace.sums.of.get(view.node, []):
        total = each.total(exact(trace, scope[each.read]), stacked[each.written])
        scope.define([each.result], [total], trace)
    return [*carried, *stacked.values()]


def _rows(scope: Scope, view: LoopView, trace: Trace) -> Iterator[list[Any]]:
    """Yield the rows of the scan inputs for each trip that the limit allows."""
    name = view.node.name
    stacks = [exact(trace, scope[read.stack]) for read in view.scan_inputs]
    limit = scope[view.limit]
    count = None if limit is None else int(trace.static(f"{name}/limit", limit).item())
    for read, stack in zip(view.scan_inputs, stacks, strict=True):
        count = int(stack.shape[read.axis])
    for trip in range(MOST if count is None else min(count, MOST)):
        yield [
            jnp.take(stack, stack.shape[read.axis] - 1 - trip if read.reverse else trip, read.axis)
            for read, stack in zip(view.scan_inputs, stacks, strict=True)
        ]
    if count is None or count > MOST:
        raise EngineError(
            f"The engine 'xla' would have to write out loop {name!r}, which carries sequences or "
            f"values of other shapes in every trip, for more than {MOST} trips. Run the model "
            "with engine='onnxruntime'."
        )


class _Trip:
    """One trip; what it has to know while compiling are facts of its own."""

    def __init__(self, scope: Scope, view: LoopView, trace: Trace, trip: int) -> None:
        self._outer, self._view, self._number = trace, view, trip
        self._scope = Scope(scope)
        self.trace = trace.written_out(str(view.node.name), trip)

    def run(self, rows: list[Any], carried: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        """Return whether to go on, the carried values, and the rows of the stacks."""
        view, scope, trace = self._view, self._scope, self.trace
        if view.trip is not None:
            number, proceed = np.array(self._number), np.array(True)
            scope.define(view.body.inputs[:2], [number, proceed], trace)
        scope.define([carry.input for carry in view.carries], carried, trace)
        scope.define([read.row for read in view.scan_inputs], rows, trace)
        run_graph(view.body, scope, trace)
        self._outer.ok = trace.ok
        return (
            scope[view.proceed],
            [scope[carry.output] for carry in view.carries],
            [scope[written.row] for written in view.scan_outputs],
        )


def _stacked(written: Any, rows: list[Any]) -> Any:
    """Return the rows as a stack; without any, as far as the shape of one is known."""
    if rows:
        return jnp.stack(rows[::-1] if written.reverse else rows, written.axis)
    shape = [dim if isinstance(dim, int) else 0 for dim in written.row.shape or ()]
    return jnp.zeros([0, *shape], written.row.dtype.numpy())
