"""Names that nothing else in a model has."""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.scopes import definitions, walk, walk_graphs

__all__ = ["Names", "label"]


def label(node: ir.Node) -> str:
    """Return what messages call a node: its name, or that of its first output, in quotes."""
    return repr(node.name or next((value.name for value in node.outputs if value.name), ""))


class Names:
    """Hands out names that are new in the whole model, all scopes and node names included.

    >>> names = Names(["x", "x_grad"])
    >>> names.fresh("x_grad"), names.fresh("y_grad")
    ('x_grad_1', 'y_grad')
    """

    def __init__(self, taken: list[str]) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    @classmethod
    def of(cls, graph: ir.Graph) -> Names:
        """Collect the names that are taken in a main graph and in everything inside it."""
        values = [value.name for each in walk_graphs(graph) for value in definitions(each)]
        nodes = [node.name for node in walk(graph)]
        return cls([name for name in (*values, *nodes) if name])

    def fresh(self, base: str) -> str:
        """Return `base` if it is free, else `base_1`, `base_2` …, and take it."""
        name, count = base, self._next.get(base, 0)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._next[base] = count
        self._taken.add(name)
        return name
