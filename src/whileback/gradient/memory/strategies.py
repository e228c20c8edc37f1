"""What may be said about the memory of a loop's gradient, and what is done if nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

from whileback.errors import ArgumentError
from whileback.gradient.rules.controlflow.costs import known_bytes
from whileback.gradient.rules.controlflow.frames import Plan
from whileback.gradient.rules.controlflow.trips import runs_to_the_limit
from whileback.graph.constants import known_ints
from whileback.graph.scopes import LoopView
from whileback.graph.tape import size_text

__all__ = ["Budget", "Memory", "Strategy", "budget", "check_strategy", "known_trips", "plan"]

# What is kept of a loop before the default turns from keeping all to checkpoints.
LIMIT = 2**30

Name = Literal["keep", "recompute", "checkpoint"]


@dataclass(frozen=True)
class Budget:
    """How many frames a loop may hold at a time; made by `budget`."""

    frames: int
    trips: int | None = None


Strategy = Name | Budget
Memory = Strategy | Mapping[str, Strategy] | None


def budget(frames: int, trips: int | None = None) -> Budget:
    """Return a memory strategy: the fastest that holds at most so many frames of a loop at a time.

    Args:
        frames: what a trip keeps for the way back is a frame, and so is what is carried into it.
        trips: how many trips are expected, where the model does not tell. More of them are right
            as well, and hold more frames.

    Raises:
        ArgumentError: for a number below 1.

    >>> budget(frames=100, trips=1_000_000)
    Budget(frames=100, trips=1000000)
    """
    for name, number in (("frames", frames), ("trips", trips)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ArgumentError(f"budget({name}={number!r}): give a whole number from 1 on.")
    return Budget(frames, trips)


def check_strategy(strategy: Strategy) -> None:
    """Refuse what is no strategy.

    Raises: ArgumentError.
    """
    if not isinstance(strategy, Budget) and strategy not in get_args(Name):
        raise ArgumentError(
            f'memory={strategy!r} is unknown; give "keep", "recompute", "checkpoint" or '
            "budget(frames=…)."
        )


def plan(view: LoopView, strategy: Strategy | None) -> Plan:
    """Return what a strategy, or the default, means for a loop.

    Raises:
        ArgumentError: an unknown strategy, or a budget that is too small or needs `trips`.
    """
    if strategy is None:
        return _default(view)
    if isinstance(strategy, Budget):
        return _within(view, strategy)
    check_strategy(strategy)
    return Plan(int(strategy == "checkpoint"), strategy == "recompute", f"{strategy}, as asked for")


def _within(view: LoopView, given: Budget) -> Plan:
    trips = known_trips(view) or given.trips
    if trips is None:
        raise ArgumentError(
            f"budget(frames={given.frames}) for loop '{view.node.name}', whose number of trips is "
            "known only when it runs: say how many are expected, budget(frames=…, trips=…)."
        )
    needed = [_frames(trips, levels) for levels in range(max(1, trips.bit_length()))]
    fitting = [levels for levels, frames in enumerate(needed) if frames <= given.frames]
    if not fitting:
        raise ArgumentError(
            f"budget(frames={given.frames}) is too small for the {trips} trips of loop "
            f"'{view.node.name}': the least is {min(needed)}."
        )
    levels = fitting[0]
    name = "checkpoint" if levels else "keep"
    return Plan(levels, False, f"{name}: {needed[levels]} frames at a time for {trips} trips")


def _frames(trips: int, levels: int) -> int:
    """Return how many frames are held at a time with so many loops around the trips."""
    root: float = trips ** (1 / (levels + 1))
    return (levels + 1) * ceil(root - 1e-9)


def _default(view: LoopView) -> Plan:
    """Keep what the trips compute, but for loops that are known to compute too much."""
    trips, bytes_ = known_trips(view), _bytes_per_trip(view)
    if trips is None:
        return Plan(0, False, "keep: the number of trips is known only when it runs")
    if bytes_ is None:
        return Plan(0, False, "keep: the sizes in its body are known only when it runs")
    total = f"at most {size_text(trips * bytes_)} in {trips} trips"
    if trips * bytes_ > LIMIT:
        return Plan(1, False, f"checkpoint: it computes {total}")
    return Plan(0, False, f"keep: it computes {total}")


def known_trips(view: LoopView) -> int | None:
    """Return the number of trips if the model tells it."""
    for scan in view.scan_inputs:
        length = None if scan.stack.shape is None else list(scan.stack.shape)[scan.axis]
        if isinstance(length, int):
            return length
    limit = known_ints(view.limit)
    return max(0, limit[0]) if limit is not None and runs_to_the_limit(view) else None


def _bytes_per_trip(view: LoopView) -> int | None:
    """Return how much a trip computes, if all sizes are known."""
    sizes = [known_bytes(value) for node in view.body for value in node.outputs]
    return None if None in sizes else sum(filter(None, sizes))
