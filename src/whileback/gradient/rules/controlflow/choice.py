"""Keep or compute again: the cheapest way to have what is needed, found exactly.

Each value that is not there for free is either kept, for a price, or made again by its step, for
another; the step then needs all that it reads. Both prices are the costs of edges of a network:

```
 source ──∞──▶ needed value ──price of keeping──▶ its step ──price of running──▶ sink
                                                     └──∞──▶ each value that it reads
```

What is on the source's side of a cut is needed, or runs; where an edge from a value is cut, the
value is kept. So the cheapest cut is the cheapest choice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from whileback.gradient.rules.controlflow.flow import Network

__all__ = ["Choice", "Step", "cheapest"]

V = TypeVar("V", bound=Hashable)
S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Step(Generic[V]):
    """What a step reads, and what running it costs."""

    reads: Sequence[V]
    cost: int


@dataclass(frozen=True)
class Choice(Generic[V, S]):
    """The values to keep and the steps to run again."""

    kept: set[V]
    again: set[S]


def cheapest(
    needed: Iterable[V],
    keeping: Mapping[V, int],
    makers: Mapping[V, S],
    steps: Mapping[S, Step[V]],
) -> Choice[V, S]:
    """Return the cheapest choice that makes all values available that are needed.

    Args:
        needed: the values that something else reads.
        keeping: what it costs to keep each value; values that are left out are there for free.
        makers: the step that makes a value; values that are left out can only be kept.
        steps: all of them; no step reads what it makes, directly or not.

    Of choices that cost the same, the one that runs fewer steps.
    """
    network = Network()
    source, sink = network.vertex(), network.vertex()
    values = {value: network.vertex() for value in keeping}
    running = {step: network.vertex() for step in steps}
    without_end = 1 + sum(keeping.values()) + sum(step.cost for step in steps.values())
    for value, vertex in values.items():
        network.edge(vertex, running[makers[value]] if value in makers else sink, keeping[value])
    for name, step in steps.items():
        network.edge(running[name], sink, step.cost)
        for value in step.reads:
            if value in values:
                network.edge(running[name], values[value], without_end)
    for value in needed:
        if value in values:
            network.edge(source, values[value], without_end)
    inside = network.cut(source, sink)
    again = {step for step, vertex in running.items() if vertex in inside}
    asked_for = {value for value, vertex in values.items() if vertex in inside}
    return Choice({v for v in asked_for if v not in makers or makers[v] not in again}, again)
