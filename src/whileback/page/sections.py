"""Long lists of nodes in sections, and these in sections, so that each fits a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from whileback.page.document import Section

__all__ = ["FLAT", "sections_by", "split"]

# So many nodes are drawn without sections.
FLAT = 80
# So many parts a list has, about, and each part of it.
_WIDTH = 20

Items = tuple[int | Section, ...]
Scope = tuple[str, ...]


def split(nodes: Sequence[int], scope: Callable[[int], Scope], first: int = 1) -> Items:
    """Return nodes in sections of neighbours; as they are if they are few.

    Args:
        nodes: in their order.
        scope: gives what a node belongs to, by its name; where that changes is a place to cut.
        first: which node of its lane the first one is, counted from 1.
    """
    if len(nodes) <= FLAT:
        return tuple(nodes)
    levels = 2
    while _WIDTH**levels < len(nodes):
        levels += 1
    size = round(len(nodes) ** (1 - 1 / levels))
    parts = _cut(nodes, size, scope)
    usual = _usual(list(map(scope, nodes)))
    starts = [first + sum(map(len, parts[:place])) for place in range(len(parts))]
    return tuple(
        Section(_title(list(map(scope, part)), usual, start), split(part, scope, start))
        for part, start in zip(parts, starts, strict=True)
    )


def _cut(nodes: Sequence[int], size: int, scope: Callable[[int], Scope]) -> list[Sequence[int]]:
    """Return parts of about a size, cut where neighbours have least in common."""
    parts: list[Sequence[int]] = []
    start = 0
    while len(nodes) - start > size * 3 // 2:

        def badness(at: int, target: int = start + size) -> tuple[int, int]:
            return len(_common([scope(nodes[at - 1]), scope(nodes[at])])), abs(at - target)

        end = min(range(start + size * 2 // 3, start + size * 4 // 3 + 1), key=badness)
        parts.append(nodes[start:end])
        start = end
    return [*parts, nodes[start:]]


def _title(scopes: Sequence[Scope], usual: Scope, first: int) -> str:
    """Return what the nodes belong to, without what goes for most, and which ones they are."""
    scope = _common(scopes)
    if scope[: len(usual)] == usual:
        scope = scope[len(usual) :]
    return f"{'/'.join(scope)} {first}–{first + len(scopes) - 1}".strip()


def _usual(scopes: Sequence[Scope]) -> Scope:
    """Return the longest scope that most of the nodes are in."""
    found: Scope = ()
    while True:
        inner = Counter(s[: len(found) + 1] for s in scopes if len(s) > len(found))
        best, count = max(inner.items(), key=lambda item: item[1], default=(found, 0))
        if 2 * count <= len(scopes):
            return found
        found = best


def _common(scopes: Sequence[Scope]) -> Scope:
    """Return the parts that all scopes begin with."""
    levels = zip(*scopes, strict=False)
    return tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def sections_by(
    nodes: Sequence[int], groups: Mapping[int, str], scope: Callable[[int], Scope]
) -> Items:
    """Return nodes in one section for each group, in the order in which these begin.

    Args:
        nodes: in their order.
        groups: the title of each node's group; nodes without one make a group of their own.
        scope: as for `split`, which long groups are given to.
    """
    found: dict[str, list[int]] = {}
    for node in nodes:
        found.setdefault(groups.get(node, "others"), []).append(node)
    if len(nodes) <= FLAT or len(found) == 1:
        return split(nodes, scope)
    return tuple(Section(f"∂ {title}", split(part, scope)) for title, part in found.items())
