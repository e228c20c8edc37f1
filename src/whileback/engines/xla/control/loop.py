"""`Loop` and `Scan`: a `while_loop` that writes the rows of its stacks in place.

A loop outside of all others makes stacks of exactly as many rows as it makes trips, a number for
which the program is compiled. One inside another makes stacks with room for some rows, `Rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.control.types import as_arrays, same_types
from whileback.engines.xla.control.unrolled import unrolled
from whileback.engines.xla.facts import NotStaticError, Trace
from whileback.engines.xla.interpret import Scope, exact, run_graph
from whileback.engines.xla.rows import Rows
from whileback.graph.scopes import LoopView, loop_view

__all__ = ["loop"]


def loop(scope: Scope, node: ir.Node, trace: Trace) -> list[Any]:
    """Run a loop; one that carries sequences, or other shapes in every trip, is written out."""
    view = loop_view(node)
    try:
        return _Loop(scope, view, trace).run()
    except NotStaticError:
        if not trace.is_top:
            raise
        return unrolled(scope, view, trace)


@dataclass(frozen=True)
class _Length:
    """How many rows the stacks have: `room` for them, and whether that is the number of trips."""

    room: int
    is_exact: bool


class _Loop:
    """One loop while it is lowered."""

    def __init__(self, scope: Scope, view: LoopView, trace: Trace) -> None:
        self._scope, self._view, self._trace = scope, view, trace
        self._name = str(view.node.name)
        self._fact = f"trips of {self._name}"
        self._stacks = [self._rows_in_order(read) for read in view.scan_inputs]
        self._limit = self._find_limit()
        start = scope[view.start]
        self._proceed = jnp.array(True) if start is None else jnp.asarray(start).reshape(())
        self._initial = as_arrays([scope[carry.initial] for carry in view.carries])
        self._wanted = [w for w in view.scan_outputs if w.stack.uses() or w.stack.is_graph_output()]

    def run(self) -> list[Any]:
        """Run the loop and return what its node does."""
        trip = jnp.zeros((), jnp.int64)
        shapes = jax.eval_shape(self._trip, trip, self._proceed, self._trace.ok, self._initial)
        _, ok_type, carried, rows, reports = shapes
        if not same_types(carried, self._initial):
            raise NotStaticError(self._name)
        length = self._length()
        tapes = [jnp.zeros((length.room, *row.shape), row.dtype) for row in rows]
        ok = jnp.array(True) if ok_type is not None and self._trace.ok is None else self._trace.ok
        start = {key: jnp.zeros((), jnp.int64) for key in reports}
        state = trip, self._proceed, ok, self._initial, tapes, start
        trips, _, ok, carried, tapes, reports = jax.lax.while_loop(self._goes_on, self._step, state)
        self._trace.ok = ok
        self._trace.report_most(reports)
        return [*carried, *self._results(trips, tapes, length)]

    def _rows_in_order(self, read: Any) -> Any:
        stack = self._scope[read.stack]
        if isinstance(stack, Rows) and (stack.capacity == 0 or read.axis % stack.ndim):
            stack = exact(self._trace, stack)
        if isinstance(stack, Rows):
            return stack
        return jnp.moveaxis(jnp.asarray(stack), read.axis, 0)

    def _find_limit(self) -> Any:
        """Return the most trips: a number, a traced one, or None."""
        for stack in self._stacks:
            if not isinstance(stack, Rows):
                return int(stack.shape[0])
        if self._stacks:
            return self._stacks[0].count
        limit = self._scope[self._view.limit]
        if limit is None:
            return None
        return int(limit.item()) if isinstance(limit, np.ndarray) else limit.reshape(())

    def _is_certain(self) -> bool:
        """Tell whether it is the limit that ends the loop, and nothing else."""
        view = self._view
        if view.proceed is None:
            return True
        start = self._scope[view.start]
        if start is not None and not (isinstance(start, np.ndarray) and start.item()):
            return False
        constant = self._scope[view.proceed]
        always = isinstance(constant, np.ndarray) and bool(constant.item())
        return always or view.proceed is view.body.inputs[1]

    def _length(self) -> _Length:
        trace = self._trace
        if isinstance(self._limit, int) and self._is_certain():
            return _Length(max(self._limit, 0), True)
        if self._stacks:
            return _Length(self._stacks[0].capacity, False)
        if not self._wanted:
            return _Length(0, False)
        if not trace.is_top:
            return _Length(trace.capacity(self._name), False)
        if (known := trace.facts.get(trace.prefix + self._fact)) is not None:
            return _Length(int(known), True)
        return _Length(0, False)

    def _goes_on(self, state: Any) -> jax.Array:
        trip, proceed, ok, *_ = state
        goes_on = proceed if not self._is_certain() else jnp.array(True)
        if self._limit is not None:
            goes_on &= trip < self._limit
        return goes_on if ok is None else goes_on & ok

    def _step(self, state: Any) -> Any:
        trip, proceed, ok, carried, tapes, reports = state
        proceed, ok, carried, rows, more = self._trip(trip, proceed, ok, carried)
        tapes = [
            jax.lax.dynamic_update_index_in_dim(tape, row, self._place(trip, written.reverse), 0)
            if tape.shape[0]
            else tape
            for tape, row, written in zip(tapes, rows, self._wanted, strict=True)
        ]
        reports = {key: jnp.maximum(reports[key], value) for key, value in more.items()}
        return trip + 1, proceed, ok, carried, tapes, reports

    def _place(self, trip: jax.Array, reverse: bool) -> jax.Array:
        return self._limit - 1 - trip if reverse else trip

    def _trip(self, trip: Any, proceed: Any, ok: Any, carried: list[Any]) -> Any:
        """Run the body once."""
        from whileback.engines.xla.control import CONTROL

        view = self._view
        trace, scope = self._trace.within(ok), Scope(self._scope)
        if view.trip is not None:
            scope.define(view.body.inputs[:2], [trip, proceed], trace)
        scope.define([carry.input for carry in view.carries], carried, trace)
        for read, stack in zip(view.scan_inputs, self._stacks, strict=True):
            buffer = stack.buffer if isinstance(stack, Rows) else stack
            place = self._place(trip, read.reverse)
            row = jax.lax.dynamic_index_in_dim(buffer, place, 0, keepdims=False)
            scope.define([read.row], [row], trace)
        run_graph(view.body, scope, trace, CONTROL)
        goes_on = jnp.array(True) if view.proceed is None else jnp.asarray(scope[view.proceed])
        carried = as_arrays([scope[carry.output] for carry in view.carries])
        rows = as_arrays([exact(trace, scope[written.row]) for written in self._wanted])
        return goes_on.reshape(()), trace.ok, carried, rows, trace.reports

    def _results(self, trips: jax.Array, tapes: list[jax.Array], length: _Length) -> list[Any]:
        """Return the stacks of rows."""
        trace = self._trace
        origin = None
        if self._wanted and not length.is_exact and not self._stacks:
            if trace.is_top:
                origin = trace.prefix + self._fact
            else:
                trace.needed(self._name, trips)
        elif self._wanted and not isinstance(self._limit, int):
            trace.static(self._fact, trips)
        elif self._wanted and not self._is_certain():
            trace.static(self._fact, trips)
        found = iter(tapes)
        results = []
        for written in self._view.scan_outputs:
            if written not in self._wanted:
                results.append(None)
                continue
            tape = next(found)
            if length.is_exact:
                results.append(jnp.moveaxis(tape, 0, written.axis))
                continue
            rows = Rows(tape, trips, origin)
            results.append(
                rows if written.axis == 0 else jnp.moveaxis(exact(trace, rows), 0, written.axis)
            )
        return results
