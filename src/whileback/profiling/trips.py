"""What each trip of a loop takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from whileback.engines.tracing import Event
from whileback.profiling.profile import Cost

__all__ = ["add_trips"]


def add_trips(costs: Mapping[str, Cost], events: Sequence[Event]) -> None:
    """Add to each loop what each of its trips takes, by the events of one run.

    A node that stands directly in a loop's body runs once in each trip; what stands deeper ends
    before the node around it does.
    """
    runs: Counter[str] = Counter()
    # The most memory in use inside a node that has not ended.
    inside: dict[str, int] = {}
    for event in events:
        cost = costs.get(event.node)
        if cost is None:
            continue
        trip = runs[cost.name]
        runs[cost.name] += 1
        peak = max(event.in_use, inside.pop(cost.name, 0))
        if cost.path and costs[cost.path[-1]].is_loop:
            costs[cost.path[-1]].add_to_trip(trip, event.duration, peak)
        for around in cost.path:
            inside[around] = max(inside.get(around, 0), event.in_use)
