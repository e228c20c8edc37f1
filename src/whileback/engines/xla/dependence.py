"""What depends on which inputs of a model, numbers of all types and ways through it included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import onnx_ir as ir

from whileback.graph.scopes import branches, is_loop, is_standard, loop_view, operands, walk

__all__ = ["goes_one_way", "sources"]

Link = tuple[ir.Value | None, ir.Value]


def goes_one_way(graph: ir.Graph, varying: Collection[str]) -> bool:
    """Tell whether all branches and lengths of loops stay the same where these inputs vary."""
    found = {value for value in graph.inputs if value.name in varying}
    links = list(_links(graph))
    _close(found, links, lambda link: link)
    return found.isdisjoint(_deciding(graph))


def sources(graph: ir.Graph, values: Iterable[ir.Value | None]) -> list[str]:
    """Return the inputs of the model on which the values depend, in their order."""
    found = {value for value in values if value is not None}
    _close(found, list(_links(graph))[::-1], lambda link: (link[1], link[0]))
    return [str(value.name) for value in graph.inputs if value in found]


def _close(
    found: set[ir.Value],
    links: list[Link],
    turned: Callable[[Link], tuple[ir.Value | None, ir.Value | None]],
) -> None:
    """Add what the links lead to, until there is no more: loops lead back."""
    before = -1
    while before != len(found):
        before = len(found)
        for link in links:
            start, end = turned(link)
            if start in found and end is not None:
                found.add(end)


def _links(graph: ir.Graph) -> Iterator[Link]:
    """Yield pairs of a value and one that depends on it, in the order of the nodes."""
    for node in walk(graph):
        if is_loop(node):
            view = loop_view(node)
            for carry in view.carries:
                yield from [(carry.initial, carry.input), (carry.output, carry.input)]
                yield from [(carry.initial, carry.result), (carry.output, carry.result)]
            yield from ((read.stack, read.row) for read in view.scan_inputs)
            yield from ((written.row, written.stack) for written in view.scan_outputs)
            ways = [view.limit, view.start, view.proceed]
        elif is_standard(node, "If"):
            for branch in branches(node):
                yield from zip(branch.outputs, node.outputs, strict=True)
            ways = [node.inputs[0]]
        else:
            ways = operands(node)
        yield from ((way, output) for way in ways for output in node.outputs)


def _deciding(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield what decides about branches and the lengths of loops."""
    for node in walk(graph):
        found: list[ir.Value | None] = []
        if is_loop(node):
            view = loop_view(node)
            found = [view.limit, view.start, view.proceed]
        elif is_standard(node, "If"):
            found = [node.inputs[0]]
        yield from (value for value in found if value is not None)
