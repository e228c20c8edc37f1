"""Pairs the nodes and values of two graphs: what computes the same is the same, whatever its name.

Three ways take turns until nothing new is found. Forward: nodes with one operator and attributes
that read the same values; names decide among several. Backward: what a pair of nodes reads at
one place comes from nodes with one operator. By name: outputs of one name from one operator.
What is left then may have got another operator in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.comparing.constants import AnyGraph, is_constant, nodes
from whileback.comparing.signatures import node_key, operator_key, type_key

__all__ = ["Pairing", "ends", "match"]

Step = Callable[[], None]


class Pairing:
    """Nodes and values of a model with those of another one that they stand for.

    `nodes` and `values` lead from the first model to the second one; `ours` and `theirs` give two
    values that are partners one number. `contents` are those of weights and constants that are in
    both models, whatever number of times.
    """

    def __init__(self, contents: Mapping[ir.Value, Hashable]) -> None:
        self.contents = contents
        self.nodes: dict[ir.Node, ir.Node] = {}
        self.values: dict[ir.Value, ir.Value] = {}
        self.ours: dict[ir.Value, int] = {}
        self.theirs: dict[ir.Value, int] = {}
        self._taken: set[ir.Node] = set()

    def are_free(self, a: ir.Node, b: ir.Node) -> bool:
        """Tell whether neither node has a partner."""
        return a not in self.nodes and b not in self._taken

    def has_partner(self, b: ir.Node) -> bool:
        """Tell whether a node of the second model is the partner of one of the first."""
        return b in self._taken

    def are_same(self, a: ir.Value | None, b: ir.Value | None) -> bool:
        """Tell whether two values are partners, or both are left out."""
        if a is None or b is None:
            return a is b
        if a in self.contents or b in self.contents:
            return self.contents.get(a) == self.contents.get(b)
        return self.values.get(a) is b

    def pair_values(self, a: ir.Value, b: ir.Value) -> None:
        """Make two values partners, unless one of them has another one."""
        if a not in self.ours and b not in self.theirs:
            self.values[a] = b
            # Below zero, since numbers above stand for what has no partner.
            self.ours[a] = self.theirs[b] = -1 - len(self.ours)

    def pair(self, a: ir.Node, b: ir.Node) -> None:
        """Make two nodes partners, with their outputs and the weights that they read."""
        self.nodes[a] = b
        self._taken.add(b)
        for one, other in zip(a.outputs, b.outputs, strict=False):
            self.pair_values(one, other)
        for one, other in operand_pairs(a, b):
            if is_constant(one) and is_constant(other) and type_key(one) == type_key(other):
                self.pair_values(one, other)


def operand_pairs(a: ir.Node, b: ir.Node) -> Iterable[tuple[ir.Value, ir.Value]]:
    """Yield what two nodes read at the same places."""
    for one, other in zip(a.inputs, b.inputs, strict=False):
        if one is not None and other is not None:
            yield one, other


def match(a: AnyGraph, b: AnyGraph, pairing: Pairing, *, named: bool) -> None:
    """Add to `pairing` which nodes and values of two graphs are the same.

    Args:
        a, b: the graphs.
        pairing: what is known of the scopes around them.
        named: whether inputs and outputs are known by their names, as those of a model are, and
            not by their order, as those of a body.
    """
    for one, other in ends(a.inputs, b.inputs, named):
        pairing.pair_values(one, other)
    outputs = list(ends(a.outputs, b.outputs, named))
    keys = {node: node_key(node) for graph in (a, b) for node in nodes(graph)}
    sides = _Sides(pairing, list(nodes(a)), list(nodes(b)))
    steps: Sequence[Step] = (
        lambda: _forward(sides, keys),
        lambda: _backward(sides, outputs),
        lambda: _by(sides, lambda node, _: (_names(node), operator_key(node))),
    )
    last: Sequence[Step] = (
        lambda: _by(sides, lambda _, operands: operands),
        lambda: _by(sides, lambda node, _: _names(node)),
    )
    _until_nothing_is_new(steps, sides)
    for step in last:
        if not sides.are_done():
            step()
            _until_nothing_is_new(steps, sides)


@dataclass(frozen=True)
class _Sides:
    """The nodes of two graphs that are to be matched."""

    pairing: Pairing
    ours: list[ir.Node]
    theirs: list[ir.Node]

    def free(self) -> tuple[list[ir.Node], list[ir.Node]]:
        """Return the nodes of each graph that have no partner."""
        return (
            [node for node in self.ours if node not in self.pairing.nodes],
            [node for node in self.theirs if not self.pairing.has_partner(node)],
        )

    def are_done(self) -> bool:
        """Tell whether one of the graphs has no free node."""
        return not all(self.free())


def _until_nothing_is_new(steps: Sequence[Step], sides: _Sides) -> None:
    known = -1
    while len(sides.pairing.nodes) > known:
        known = len(sides.pairing.nodes)
        for step in steps:
            if not sides.are_done():
                step()


def ends(
    a: Sequence[ir.Value], b: Sequence[ir.Value], named: bool
) -> Iterable[tuple[ir.Value, ir.Value]]:
    """Yield inputs, or outputs, of two graphs that have one name, or else one place."""
    if not named:
        return zip(a, b, strict=False)
    others = {value.name: value for value in b}
    return [(value, others[value.name]) for value in a if value.name in others]


def _forward(sides: _Sides, keys: Mapping[ir.Node, Hashable]) -> None:
    """Pair nodes that compute the same of the same values."""
    numbers: dict[Hashable, int] = {}
    contents, pairing = sides.pairing.contents, sides.pairing
    ours = _numbered(sides.ours, keys, contents, pairing.ours, numbers)
    theirs = _numbered(sides.theirs, keys, contents, pairing.theirs, numbers)
    _pair_groups(ours, theirs, pairing)


def _numbered(
    graph: Sequence[ir.Node],
    keys: Mapping[ir.Node, Hashable],
    contents: Mapping[ir.Value, Hashable],
    partners: Mapping[ir.Value, int],
    numbers: dict[Hashable, int],
) -> dict[ir.Node, Hashable]:
    """Return a number for each node, the same for nodes that compute the same."""
    known: dict[ir.Value, int] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers) + 1)

    def of(value: ir.Value | None) -> int:
        if value is None:
            return 0
        found = partners.get(value) or known.get(value)
        return number(contents.get(value, type_key(value))) if found is None else found

    found: dict[ir.Node, Hashable] = {}
    for node in graph:
        found[node] = number((keys[node], tuple(map(of, node.inputs))))
        for place, value in enumerate(node.outputs):
            known[value] = number((found[node], place))
    return found


def _pair_groups(
    ours: Mapping[ir.Node, Hashable], theirs: Mapping[ir.Node, Hashable], pairing: Pairing
) -> None:
    """Pair free nodes of one key: those of one name, then the others in their order."""
    mine = _groups((n, key) for n, key in ours.items() if n not in pairing.nodes)
    others = _groups((n, key) for n, key in theirs.items() if not pairing.has_partner(n))
    for key in mine.keys() & others.keys():
        by_name = {_names(node): node for node in others[key]}
        for node in mine[key]:
            if (other := by_name.pop(_names(node), None)) is not None:
                pairing.pair(node, other)
        rest = [node for node in mine[key] if node not in pairing.nodes]
        free = [node for node in others[key] if not pairing.has_partner(node)]
        for node, other in zip(rest, free, strict=False):
            pairing.pair(node, other)


def _groups(keyed: Iterable[tuple[ir.Node, Hashable]]) -> dict[Hashable, list[ir.Node]]:
    groups: dict[Hashable, list[ir.Node]] = defaultdict(list)
    for node, key in keyed:
        if key is not None:
            groups[key].append(node)
    return groups


def _backward(sides: _Sides, outputs: Sequence[tuple[ir.Value, ir.Value]]) -> None:
    """Pair what computes the operands of pairs, and the results, as long as operators agree."""
    pairing, stack = sides.pairing, [*outputs]
    graph = sides.ours[0].graph
    for node in sides.ours:
        if node in pairing.nodes:
            stack += operand_pairs(node, pairing.nodes[node])
    while stack:
        one, other = (value.producer() for value in stack.pop())
        if one is None or other is None or not pairing.are_free(one, other):
            continue
        if one.graph is graph and operator_key(one) == operator_key(other):
            pairing.pair(one, other)
            stack += operand_pairs(one, other)


def _by(sides: _Sides, key: Callable[[ir.Node, tuple[int, ...] | None], Hashable]) -> None:
    """Pair free nodes by a key of the node and of what it reads, if all of that has partners."""
    ours, theirs = (
        {node: key(node, _operands(node, partners)) for node in free}
        for free, partners in zip(
            sides.free(), (sides.pairing.ours, sides.pairing.theirs), strict=True
        )
    )
    _pair_groups(ours, theirs, sides.pairing)


def _operands(node: ir.Node, partners: Mapping[ir.Value, int]) -> tuple[int, ...] | None:
    numbers = tuple(partners.get(value, 0) if value is not None else 0 for value in node.inputs)
    return numbers if numbers and all(numbers) else None


def _names(node: ir.Node) -> tuple[str | None, ...]:
    return tuple(value.name for value in node.outputs)
