"""Two models in one drawing: the second one, with what it has no more of the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from whileback.page.document import Change
from whileback.page.reading import Draft, Reading

__all__ = ["merge"]

# Stands before the first node of a graph.
_TOP = -1


def merge(
    before: Reading,
    after: Reading,
    nodes: Mapping[ir.Node, ir.Node],
    values: Mapping[ir.Value, ir.Value],
    details: Mapping[ir.Node, tuple[str, ...]],
) -> None:
    """Mark in `after` what changed, and add to it the nodes that it has no more.

    Args:
        before, after: two models; `after` is changed.
        nodes, values: those of the first model that are still there, with what they are now.
        details: how nodes of the first model changed.
    """
    _Merger(before, after, nodes, values).merge(details)


class _Merger:
    """Numbers what is removed behind what is there."""

    def __init__(
        self,
        before: Reading,
        after: Reading,
        nodes: Mapping[ir.Node, ir.Node],
        values: Mapping[ir.Value, ir.Value],
    ) -> None:
        self._before, self._after = before, after
        self._nodes = {
            number: after.node_numbers[nodes[node]]
            for node, number in before.node_numbers.items()
            if node in nodes
        }
        self._values = {
            before.value_numbers[old]: after.value_numbers[new]
            for old, new in values.items()
            if old in before.value_numbers and new in after.value_numbers
        }
        self._removed = [n for n in range(len(before.nodes)) if n not in self._nodes]
        for number in self._removed:
            for value in before.nodes[number].outputs:
                self._values.pop(value, None)

    def merge(self, details: Mapping[ir.Node, tuple[str, ...]]) -> None:
        """Mark what changed, and add what is removed."""
        still = set(self._nodes.values())
        for number in range(len(self._after.nodes)):
            if number not in still:
                self._mark(number, Change("added"))
        for node, lines in details.items():
            self._mark(self._nodes[self._before.node_numbers[node]], Change("changed", lines))
        start = len(self._after.nodes)
        self._nodes |= {number: start + place for place, number in enumerate(self._removed)}
        graphs = self._graphs()
        self._keep_bodies(graphs)
        for number in self._removed:
            self._add(number, graphs)
        for old, new in graphs.items():
            self._insert(self._before.graphs[old], self._after.graphs[new])

    def _mark(self, number: int, change: Change) -> None:
        self._after.nodes[number] = replace(self._after.nodes[number], change=change)

    def _graphs(self) -> dict[int, int]:
        """Return the number that each graph of the first model has now, and add those gone."""
        found = {0: 0}
        keys = list(self._after.model.functions)
        for place, key in enumerate(self._before.model.functions, 1):
            if key in keys:
                found[place] = 1 + keys.index(key)
        for number in set(self._nodes) - set(self._removed):
            there = self._after.nodes[self._nodes[number]].bodies
            found |= dict(zip(self._before.nodes[number].bodies, there, strict=False))
        for place, draft in enumerate(self._before.graphs):
            if place not in found:
                found[place] = len(self._after.graphs)
                inputs, outputs = (
                    tuple(map(self._value, ends)) for ends in (draft.inputs, draft.outputs)
                )
                self._after.graphs.append(Draft(draft.title, inputs, outputs, [], draft.doc))
        return found

    def _keep_bodies(self, graphs: Mapping[int, int]) -> None:
        """Let nodes that stand for others have the bodies of these."""
        for number in set(self._nodes) - set(self._removed):
            place = self._nodes[number]
            node = self._after.nodes[place]
            old = (graphs[body] for body in self._before.nodes[number].bodies)
            bodies = tuple(dict.fromkeys((*node.bodies, *old)))
            self._after.nodes[place] = replace(node, bodies=bodies)

    def _add(self, number: int, graphs: Mapping[int, int]) -> None:
        node = self._before.nodes[number]
        self._after.nodes.append(
            replace(
                node,
                inputs=tuple(None if v is None else self._value(v) for v in node.inputs),
                outputs=tuple(map(self._value, node.outputs)),
                bodies=tuple(graphs[body] for body in node.bodies),
                source=None if node.source is None else self._nodes[node.source],
                change=Change("removed"),
            )
        )

    def _value(self, number: int) -> int:
        if number not in self._values:
            self._values[number] = len(self._after.values)
            self._after.values.append(self._before.values[number])
        return self._values[number]

    def _insert(self, old: Draft, new: Draft) -> None:
        """Put removed nodes behind those behind which they stood."""
        there = set(new.members)
        behind: dict[int, list[int]] = {_TOP: []}
        last = _TOP
        for number in old.members:
            place = self._nodes[number]
            if place in there:
                last = place
            else:
                behind.setdefault(last, []).append(place)
        order = [n for place in (_TOP, *new.members) for n in (place, *behind.get(place, ()))]
        new.members[:] = order[1:]
