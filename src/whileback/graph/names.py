"""Names that nothing else in a model has."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx_ir as ir

from whileback.graph.scopes import definitions, walk, walk_graphs

__all__ = ["Names", "identifiers", "label", "node_name"]


def label(node: ir.Node) -> str:
    """Return what messages call a node: its name, or that of its first output, in quotes."""
    return repr(node_name(node))


def node_name(node: ir.Node) -> str:
    """Return the name of a node, or that of its first output, or else nothing."""
    return node.name or next((value.name for value in node.outputs if value.name), "")


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


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return for each name one that Python and PyTorch take for an attribute, none twice.

    >>> identifiers(["fc.weight", "fc_weight", "0/b", "train"], taken=["train"])
    {'fc.weight': 'fc_weight', 'fc_weight': 'fc_weight_1', '0/b': '_0_b', 'train': 'train_1'}
    """
    free = Names([*taken])
    return {name: free.fresh(re.sub(r"[^0-9A-Za-z_]|^(?=[0-9]|$)", "_", name)) for name in names}
