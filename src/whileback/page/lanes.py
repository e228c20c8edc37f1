"""On which side of the drawing nodes stand: the model's own, its gradient's, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from whileback.page.document import Lane, Node, Section
from whileback.page.sections import sections_by, split

__all__ = ["arrange", "runs_upward"]

Items = tuple[int | Section, ...]


def arrange(numbers: Sequence[int], nodes: Sequence[Node]) -> dict[Lane, Items]:
    """Return the nodes of one graph by their lanes, long lanes in sections.

    Sections of the gradient are those of the model, so that the two can be seen side by side.
    """
    lanes: dict[Lane, list[int]] = {}
    for number in numbers:
        lanes.setdefault(nodes[number].lane, []).append(number)
    own = split(lanes.get("forward", ()), lambda number: _scope(nodes[number]))
    titles = _titles(own)
    found: dict[Lane, Items] = {"forward": own}
    gradient = lanes.get("gradient", ())
    groups = {
        number: titles[source]
        for number in gradient
        if (source := nodes[number].source) is not None and source in titles
    }
    found["gradient"] = sections_by(gradient, groups, lambda number: _scope(nodes[number]))
    found["update"] = split(lanes.get("update", ()), lambda number: _scope(nodes[number]))
    return {lane: items for lane, items in found.items() if items}


def runs_upward(numbers: Sequence[int], nodes: Sequence[Node]) -> bool:
    """Tell whether a gradient goes from the end of the model to its beginning, as tangents do not.

    Decided by the majority of neighbours that stem from different nodes.
    """
    sources = [source for number in numbers if (source := nodes[number].source) is not None]
    steps = [(b > a) - (b < a) for a, b in pairwise(sources)]
    return sum(steps) <= 0


def _scope(node: Node) -> tuple[str, ...]:
    """Return the parts of the node's name, the last one apart: `/encoder/0/MatMul`."""
    parts = [part for part in node.name.split("/") if part]
    return tuple(parts[:-1])


def _titles(items: Items) -> dict[int, str]:
    """Return the title of each node's outermost section."""
    return {
        number: item.title for item in items if isinstance(item, Section) for number in item.nodes()
    }
