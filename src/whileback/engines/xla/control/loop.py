"""`Loop` and `Scan`: a `while_loop` that writes the rows of its stacks in place.

A loop outside of all others makes stacks of exactly as many rows as it makes trips, a number for
which the program is compiled. One inside another makes stacks with room for some rows, `Rows`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.control.kernel import as_kernel, is_kernel, trips_at_once
from whileback.engines.xla.control.length import Length
from whileback.engines.xla.control.single import require_single
from whileback.engines.xla.control.types import Once, as_arrays, same_types
from whileback.engines.xla.control.unrolled import unrolled
from whileback.engines.xla.delayed import Delayed
from whileback.engines.xla.facts import NotStaticError, Trace
from whileback.engines.xla.interpret import Scope, apply, exact, run_graph
from whileback.engines.xla.linear import Growth
from whileback.engines.xla.registry import control
from whileback.engines.xla.rows import Array, Rows
from whileback.errors import EngineError
from whileback.graph.scopes import LoopView, loop_view

__all__ = ["loop"]


@control("Scan")
@control("Loop")
def loop(scope: Scope, node: ir.Node, trace: Trace) -> list[Any]:
    """Run a loop; one that carries sequences, or other shapes in every trip, is written out.

    So is one whose body cannot run on the shapes before it: it may make no trip.
    """
    view = loop_view(node)
    if node.op_type == "Loop":
        require_single(node, "number of trips", scope[view.limit])
        require_single(node, "condition", scope[node.inputs[1]])
    try:
        return _Loop(scope, view, trace).run()
    except (NotStaticError, EngineError):
        is_counted = trace.can_end or isinstance(scope[view.limit], np.ndarray)
        if not trace.is_top or not is_counted:
            raise
        return unrolled(scope, view, trace)


class _State(NamedTuple):
    """What a trip hands on: `ok` is None where nothing can prove wrong, see `facts`."""

    trip: jax.Array
    proceed: jax.Array
    ok: jax.Array | None
    carried: list[Any]
    sums: list[jax.Array]
    tapes: list[jax.Array]
    reports: dict[str, jax.Array]


class _Loop:
    """One loop while it is lowered."""

    def __init__(self, scope: Scope, view: LoopView, trace: Trace) -> None:
        self._scope, self._view, self._trace = scope, view, trace
        self._stacks = [_in_order(scope[read.stack], read.axis, trace) for read in view.scan_inputs]
        sources = [each.source if isinstance(each, Delayed) else each for each in self._stacks]
        self._length = Length.of(scope, view, trace, sources)
        self._sums = trace.sums.of.get(view.node, [])
        self._factors = [_in_order(scope[each.read], 0, trace) for each in self._sums]
        self._written = [each for each in view.scan_outputs if trace.sums.need(each.stack)]
        self._known: dict[Any, Growth] = {}

    def run(self) -> list[Any]:
        """Run the loop and return what its node does."""
        trace = self._trace
        if self._written:
            self._length.announce(trace)
        start = self._start()
        trip = Once(self._trip, start)
        after, rows = trip.types
        if not same_types(after.carried, start.carried):
            raise NotStaticError(str(self._view.node.name))
        room = self._length.room
        size = sum(math.prod(row.shape) * row.dtype.itemsize for row in rows)
        trace.stacks[trace.prefix + str(self._view.node.name)] = room, size
        if trace.kernels and is_kernel(trip.program):
            together = trips_at_once(trip.program) if self._length.is_certain else 1
            end = as_kernel(partial(self._repeat, trip, together), start)
        else:
            end = self._repeat(trip, 1, start)
        trace.ok = end.ok
        trace.report_most(end.reports)
        self._scope.define([each.result for each in self._sums], end.sums, trace)
        return [*end.carried, *self._results(end)]

    def _repeat(self, trip: Once, together: int, start: _State) -> _State:
        """Make the trips: as many together as are wanted, and what is left one by one."""
        after, rows = trip.types
        room = self._length.room
        state = start._replace(
            ok=jnp.array(True) if start.ok is None and after.ok is not None else start.ok,
            sums=[jnp.zeros(each.shape, each.dtype) for each in after.sums],
            tapes=[jnp.zeros((room, *row.shape), row.dtype) for row in rows],
            reports=dict.fromkeys(after.reports, start.trip),
        )
        for count in sorted({together, 1}, reverse=True):
            state = jax.lax.while_loop(
                partial(self._goes_on, count), partial(self._steps, trip, count), state
            )
        return state

    def _steps(self, trip: Once, count: int, state: _State) -> _State:
        for _ in range(count):
            state = self._step(trip, state)
        return state

    def _start(self) -> _State:
        """Return the state before the first trip, as far as it is known before one is tried."""
        scope, view = self._scope, self._view
        start = scope[view.start]
        proceed = jnp.array(True) if start is None else jnp.asarray(start).reshape(())
        initial = as_arrays([scope[carry.initial] for carry in view.carries])
        return _State(jnp.zeros((), jnp.int64), proceed, self._trace.ok, initial, [], [], {})

    def _goes_on(self, count: int, state: _State) -> jax.Array:
        """Tell whether there are to be so many trips more."""
        goes_on = jnp.array(True) if self._length.is_certain else state.proceed
        if self._length.limit is not None:
            goes_on &= state.trip < self._length.limit - (count - 1)
        return goes_on if state.ok is None else goes_on & state.ok

    def _step(self, run: Once, state: _State) -> _State:
        """Make one trip, write its rows, and add to the sums.

        A trip is made only as long as all facts held: its own `ok` is all that is left to tell.
        """
        ok = state.ok if self._trace.ok is not None else None
        after, rows = run(state._replace(ok=ok, sums=[], tapes=[], reports={}))
        tapes = list(state.tapes)
        for index, (row, written) in enumerate(zip(rows, self._written, strict=True)):
            if tapes[index].shape[0]:
                place = self._place(state.trip, written.reverse)
                tapes[index] = jax.lax.dynamic_update_index_in_dim(tapes[index], row, place, 0)
        return state._replace(
            trip=state.trip + 1,
            proceed=after.proceed,
            ok=after.ok,
            carried=after.carried,
            sums=jax.tree.map(jnp.add, state.sums, after.sums),
            tapes=tapes,
            reports=jax.tree.map(jnp.maximum, state.reports, after.reports),
        )

    def _place(self, trip: jax.Array, reverse: bool) -> jax.Array:
        """Return which row of a stack belongs to the trip."""
        limit, numbers = self._length.limit, self._trace.numbers
        if not reverse or limit is None:
            return trip
        place = limit - 1 - trip
        if isinstance(limit, int):
            numbers.note(place, limit - 1 - numbers.of(trip))
        return place

    def _row(self, stack: Any, trip: jax.Array, reverse: bool) -> Array:
        """Return the row of a stack that belongs to the trip; if all are the same, it is known."""
        if isinstance(stack, Delayed):
            rows = list(stack.operands)
            for index in stack.stacks:
                rows[index] = self._row(rows[index], trip, reverse)
            return apply(stack.node, rows, self._trace)[0]  # type: ignore[no-any-return]
        if isinstance(stack, np.ndarray) and stack.size and (stack == stack[0]).all():
            return np.asarray(stack[0])
        buffer = stack.buffer if isinstance(stack, Rows) else jnp.asarray(stack)
        if buffer.shape[0] == 0:  # The loop makes no trip.
            return jnp.zeros(buffer.shape[1:], buffer.dtype)
        place = self._place(trip, reverse)
        row: jax.Array = jax.lax.dynamic_index_in_dim(buffer, place, 0, keepdims=False)
        if isinstance(stack, np.ndarray):
            self._trace.numbers.note_row(row, stack, place)
        return row

    def _trip(self, state: _State) -> tuple[_State, list[Any]]:
        """Run the body once; return the state after it, with this trip's sums, and the rows."""
        view = self._view
        trace, scope = self._trace.within(state.ok, state.trip), Scope(self._scope)
        if view.trip is not None:
            scope.define(view.body.inputs[:2], [state.trip, state.proceed], trace)
        scope.define([carry.input for carry in view.carries], state.carried, trace)
        for read, stack in zip(view.scan_inputs, self._stacks, strict=True):
            scope.define([read.row], [self._row(stack, state.trip, read.reverse)], trace)
        run_graph(view.body, scope, trace)
        proceed = state.proceed if view.proceed is None else jnp.asarray(scope[view.proceed])
        after = state._replace(
            proceed=proceed.reshape(()),
            ok=trace.ok,
            carried=as_arrays([scope[carry.output] for carry in view.carries]),
            sums=self._terms(scope, state.trip),
            reports=trace.reports,
        )
        rows = [exact(trace, scope[each.row]) for each in self._written]
        for each, row in zip(self._written, rows, strict=True):
            if (growth := trace.numbers.growth(row, state.trip)) is not None:
                self._known[each] = growth
        return after, as_arrays(rows)

    def _terms(self, scope: Scope, trip: jax.Array) -> list[jax.Array]:
        """Return what the trip adds to each sum."""
        return [
            each.term(
                jnp.asarray(self._row(stack, trip, each.written.reverse)), scope[each.written.row]
            )
            for each, stack in zip(self._sums, self._factors, strict=True)
        ]

    def _results(self, end: _State) -> list[Any]:
        """Return the stacks of rows; None for those that nobody reads."""
        stacks = dict(zip(self._written, end.tapes, strict=True))
        if stacks:
            self._length.check(self._trace, end.trip)
        results = []
        for written in self._view.scan_outputs:
            stack: Any = stacks.get(written)
            if stack is not None:
                stack = self._length.counted(stack, end.trip, self._trace)
            if isinstance(stack, jax.Array) and written in self._known:
                stack = self._known[written].stack(len(stack))[:: -1 if written.reverse else 1]
            if written.axis:
                stack = _moved(exact(self._trace, stack), 0, written.axis)
            results.append(stack)
        return results


def _moved(stack: Array, source: int, destination: int) -> Array:
    """Return a stack with its rows along another axis."""
    xp = np if isinstance(stack, np.ndarray) else jnp
    return xp.moveaxis(stack, source, destination)  # type: ignore[no-any-return]


def _in_order(stack: Any, axis: int, trace: Trace) -> Any:
    """Return a stack that a loop reads, its rows along axis 0."""
    if isinstance(stack, Delayed):
        return stack
    if isinstance(stack, Rows) and stack.capacity and axis % stack.ndim == 0:
        return stack
    return _moved(exact(trace, stack), axis, 0)
