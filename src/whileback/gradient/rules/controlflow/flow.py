"""The minimum cut of a network: which vertices stay on the source's side."""

from __future__ import annotations

__all__ = ["Network"]


class Network:
    """Vertices, and edges between them that each cost something to cut; all are whole numbers.

    The cut is found as the largest flow, by Dinic's algorithm: as long as the sink can be reached
    over edges with room left, flow is sent along shortest paths until none of these is left.
    """

    def __init__(self) -> None:
        self._edges: list[list[int]] = []
        # Edge 2k goes somewhere, edge 2k+1 back.
        self._heads: list[int] = []
        self._room: list[int] = []

    def vertex(self) -> int:
        """Add a vertex and return its number."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, cost: int) -> None:
        """Add an edge that costs so much to cut."""
        for start, end, room in ((tail, head, cost), (head, tail, 0)):
            self._edges[start].append(len(self._heads))
            self._heads.append(end)
            self._room.append(room)

    def cut(self, source: int, sink: int) -> set[int]:
        """Return the source's side of the cheapest cut, the smallest of those that cost as much."""
        while True:
            levels = self._levels(source)
            if sink not in levels:
                return set(levels)
            self._fill(source, sink, levels)

    def _levels(self, source: int) -> dict[int, int]:
        """Return how many edges with room lead to each vertex that can be reached."""
        levels = {source: 0}
        for vertex in (reached := [source]):
            for edge in self._edges[vertex]:
                head = self._heads[edge]
                if self._room[edge] and head not in levels:
                    levels[head] = levels[vertex] + 1
                    reached.append(head)
        return levels

    def _fill(self, source: int, sink: int, levels: dict[int, int]) -> None:
        """Send flow along paths on which each edge leads one level on, until there is none."""
        untried = {vertex: list(self._edges[vertex]) for vertex in levels}
        path: list[int] = []
        vertex = source
        while True:
            if vertex == sink:
                self._send(path)
                path, vertex = [], source
            elif (edge := self._onward(untried[vertex], levels, levels[vertex] + 1)) is not None:
                path.append(edge)
                vertex = self._heads[edge]
            elif path:
                # A dead end: go back, and try the edge no more.
                edge = path.pop()
                vertex = self._heads[edge ^ 1]
                untried[vertex].pop()
            else:
                return

    def _onward(self, untried: list[int], levels: dict[int, int], level: int) -> int | None:
        """Return the last edge with room that leads to the level; drop those tried in vain."""
        while untried:
            edge = untried[-1]
            if self._room[edge] and levels.get(self._heads[edge]) == level:
                return edge
            untried.pop()
        return None

    def _send(self, path: list[int]) -> None:
        amount = min(self._room[edge] for edge in path)
        for edge in path:
            self._room[edge] -= amount
            self._room[edge ^ 1] += amount
