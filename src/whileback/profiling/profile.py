"""What a run of a model takes, node by node."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from whileback.engines.tracing import Event

__all__ = ["Cost", "Profile"]


@dataclass
class Cost:
    """What a node takes in a run of the model, all trips together.

    Attributes:
        name: the node's name.
        operator: its operator.
        path: the nodes around it, outermost first.
        source: the node of the model that it stems from: itself, or the one whose gradient it
            belongs to.
        is_backward: whether it belongs to a gradient.
        is_loop: whether it is a loop.
        is_made: whether ONNX Runtime has made it, of several nodes as a rule.
        count: how many times it runs.
        time: how long it runs, its bodies included, in microseconds.
        output: how many bytes its outputs have, all times together.
        in_use: how many bytes of ONNX Runtime's memory are in use when it ends, at most.
        trip_times: of a loop, how long the nodes of each trip run, in microseconds, in order.
        trip_in_use: of a loop, how many bytes are in use in each trip, at most.
    """

    name: str
    operator: str
    path: tuple[str, ...]
    source: str
    is_backward: bool = False
    is_loop: bool = False
    is_made: bool = False
    count: int = 0
    time: int = 0
    output: int = 0
    in_use: int = 0
    trip_times: list[int] = field(default_factory=list)
    trip_in_use: list[int] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Add one time that the node ran."""
        self.count += 1
        self.time += event.duration
        self.output += event.output
        self.in_use = max(self.in_use, event.in_use)

    def add_to_trip(self, trip: int, time: int, in_use: int) -> None:
        """Add a node of one trip; trips begin in order."""
        if trip == len(self.trip_times):
            self.trip_times.append(0)
            self.trip_in_use.append(0)
        self.trip_times[trip] += time
        self.trip_in_use[trip] = max(self.trip_in_use[trip], in_use)

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as plain data, as `whileback profile --json` prints it."""
        return {**vars(self), "path": list(self.path)}


@dataclass(frozen=True)
class Profile:
    """What a model takes, in the fastest of some runs.

    Attributes:
        model: the name of its graph.
        costs: of its nodes.
        time: of a run in microseconds, while each node is noted.
        plain_time: of a run in microseconds, while nothing is noted.
        runs: how many runs there were.
    """

    model: str
    costs: tuple[Cost, ...]
    time: int
    plain_time: float
    runs: int

    @property
    def in_use(self) -> int:
        """The most bytes of ONNX Runtime's memory that were in use when a node ended."""
        return max((cost.in_use for cost in self.costs), default=0)

    def own_times(self) -> dict[str, int]:
        """Return how long each node takes without the nodes of its bodies."""
        inner: dict[str, int] = defaultdict(int)
        for cost in self.costs:
            if cost.path:
                inner[cost.path[-1]] += cost.time
        return {cost.name: max(cost.time - inner[cost.name], 0) for cost in self.costs}

    def trips(self) -> dict[str, int]:
        """Return how many trips each loop makes in a run, all times that it runs together."""
        return {cost.name: len(cost.trip_times) for cost in self.costs if cost.is_loop}

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as plain data, as `whileback profile --json` prints it."""
        own, trips = self.own_times(), self.trips()
        nodes = [
            {**cost.to_dict(), "own": own[cost.name], "trips": trips.get(cost.name)}
            for cost in sorted(self.costs, key=lambda cost: -own[cost.name])
        ]
        times = {"time": self.time, "plain_time": self.plain_time}
        return {"model": self.model, "runs": self.runs, **times, "nodes": nodes}
