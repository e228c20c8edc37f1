"""How often a loop runs, as far as that is known while compiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from whileback.engines.xla.facts import Trace
from whileback.engines.xla.interpret import Scope
from whileback.engines.xla.rows import Array, Rows
from whileback.graph.scopes import LoopView, behind_identity

__all__ = ["Length"]


@dataclass(frozen=True)
class Length:
    """The number of trips of a loop.

    `limit` is the most trips; `is_certain` tells that nothing else ends the loop. `room` is the
    number of rows of its stacks. How many of these count is known by `source`:

    * "limit": all, since the loop makes as many trips as that;
    * "stacks": as many as of the stacks that a `Scan` reads;
    * "fact": all, if the program is compiled for the right number;
    * "open": nobody knows yet, there is no room for any;
    * "capacity": the run tells, since the program has to go on, whatever the number is.
    """

    loop: str
    limit: int | jax.Array | None
    is_certain: bool
    room: int
    source: Literal["limit", "stacks", "fact", "open", "capacity"]

    @classmethod
    def of(
        cls, scope: Scope, view: LoopView, trace: Trace, stacks: Sequence[Rows | Array]
    ) -> Length:
        """Find out what is known of a loop, whose scan inputs are these."""
        name = str(view.node.name)
        limit, certain = _limit(scope, view, stacks), _is_certain(scope, view)
        if stacks and not isinstance(limit, int):
            capacities = [stack.capacity for stack in stacks if isinstance(stack, Rows)]
            return cls(name, limit, certain, min(capacities), "stacks")
        if certain and isinstance(limit, int):
            return cls(name, limit, certain, max(limit, 0), "limit")
        if (room := trace.capacity(name)) is not None:
            return cls(name, limit, certain, room, "capacity")
        if certain and isinstance(limit, jax.Array) and view.scan_outputs:
            limit = max(trace.trip_count(name, limit), 0)
            return cls(name, limit, certain, limit, "limit")
        known = trace.facts.get(trace.origin(name))
        if known is None:
            return cls(name, limit, certain, 0, "open")
        return cls(name, limit, certain, int(known.item()), "fact")

    def announce(self, trace: Trace) -> None:
        """Report how many trips there will be, if that is known before the first one.

        Where there is room for fewer, the loop makes none of them, since all would be in vain.
        """
        if self.source == "capacity" and self.is_certain and isinstance(self.limit, jax.Array):
            trace.needed(self.loop, self.limit)

    def check(self, trace: Trace, trips: jax.Array) -> None:
        """Report how many trips there were, where the stacks depend on that."""
        if self.source == "fact":
            trace.trip_count(self.loop, trips)
        if self.source == "capacity":
            trace.needed(self.loop, trips)

    def counted(self, tape: jax.Array, trips: jax.Array, trace: Trace) -> Rows | jax.Array:
        """Return a stack that the loop wrote."""
        if self.source in ("limit", "fact"):
            return tape
        return Rows(tape, trips, trace.origin(self.loop) if trace.can_end else None)


def _limit(scope: Scope, view: LoopView, stacks: Sequence[Any]) -> int | jax.Array | None:
    for stack in stacks:
        if not isinstance(stack, Rows):
            return int(stack.shape[0])
    if stacks:
        count: jax.Array = stacks[0].count
        return count
    limit = scope[view.limit]
    if limit is None:
        return None
    if isinstance(limit, np.ndarray):
        return int(limit.item())
    # What is an argument stays that, see `facts`.
    single: jax.Array = limit.reshape(()) if limit.shape else limit
    return single


def _is_certain(scope: Scope, view: LoopView) -> bool:
    """Tell whether it is the limit that ends the loop, and nothing else."""
    if view.proceed is None:
        return True
    start, proceed = scope[view.start], scope[view.proceed]
    if start is not None and not (isinstance(start, np.ndarray) and start.item()):
        return False
    always = isinstance(proceed, np.ndarray) and bool(proceed.item())
    return always or behind_identity(view.proceed) is view.body.inputs[1]
