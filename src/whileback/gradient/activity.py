"""Which values are active: they depend on `wrt` and reach `of`; a fixed point through loops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import onnx_ir as ir

from whileback.gradient.registry import lookup
from whileback.graph.scopes import LoopView, branches, is_loop, is_standard, loop_view, operands
from whileback.graph.shapes import FLOATS, NARROW, NARROW_FLOATS

__all__ = ["carries_reached", "connected", "dependents", "passes_gradient", "reaching"]

_ALWAYS = FLOATS | NARROW_FLOATS

Values = set[ir.Value]
Passes = Callable[[ir.Node], bool]


def passes_gradient(node: ir.Node) -> bool:
    """Tell whether a gradient can flow through the node at all."""
    entry = lookup(node)
    return entry is None or not entry.reason


def _may_be_active(node: ir.Node, value: ir.Value, found: Values) -> bool:
    """Floats, and containers of floats; what has no known type counts too, to be safe.

    So do the whole numbers to which floats are rounded, and what is computed of these.
    """
    if value.dtype is None or value.dtype in _ALWAYS:
        return True
    if value.dtype not in NARROW:
        return False
    entry = lookup(node)
    rounds = entry is not None and entry.rounds
    return rounds or any(
        each is not None and each in found and each.dtype in NARROW for each in operands(node)
    )


def dependents(
    graph: Sequence[ir.Node], sources: Iterable[ir.Value], passes: Passes = passes_gradient
) -> Values:
    """Return the sources and all values, in every scope, that depend on them.

    Args:
        graph: a main graph, or some of its nodes in their order.
        sources: values in any scope.
        passes: tells which nodes count; by default those through which a gradient flows.
    """
    found = set(sources)
    _extend_dependents(graph, found, passes)
    return found


def _extend_dependents(graph: Sequence[ir.Node], found: Values, passes: Passes) -> None:
    for node in graph:
        if is_loop(node):
            _extend_through_loop(loop_view(node), found, passes)
        elif is_standard(node, "If"):
            _extend_through_if(node, found, passes)
        elif is_standard(node, "SequenceMap"):
            _extend_through_map(node, found, passes)
        elif passes(node) and any(value in found for value in operands(node)):
            found.update(v for v in node.outputs if _may_be_active(node, v, found))


def _extend_through_if(node: ir.Node, found: Values, passes: Passes) -> None:
    for branch in branches(node):
        _extend_dependents(branch, found, passes)
        results = zip(branch.outputs, node.outputs, strict=True)
        found.update(result for inner, result in results if inner in found)


def _extend_through_map(node: ir.Node, found: Values, passes: Passes) -> None:
    body = node.attributes["body"].as_graph()
    pairs = zip(node.inputs, body.inputs, strict=True)
    found.update(element for outside, element in pairs if outside in found)
    _extend_dependents(body, found, passes)
    results = zip(body.outputs, node.outputs, strict=True)
    found.update(result for inner, result in results if inner in found)


def _extend_through_loop(view: LoopView, found: Values, passes: Passes) -> None:
    found.update(c.input for c in view.carries if c.initial in found)
    found.update(s.row for s in view.scan_inputs if s.stack in found)
    while True:
        _extend_dependents(view.body, found, passes)
        fed_back = {c.input for c in view.carries if c.output in found} - found
        if not fed_back:
            break
        found.update(fed_back)
    found.update(c.result for c in view.carries if c.input in found)
    found.update(s.stack for s in view.scan_outputs if s.row in found)


def reaching(graph: Sequence[ir.Node], targets: Iterable[ir.Value], active: Values) -> Values:
    """Return the values among `active`, in every scope, on which the targets depend smoothly."""
    found = set(targets)
    _extend_reaching(graph, found, active)
    return found


def _extend_reaching(graph: Sequence[ir.Node], found: Values, active: Values) -> None:
    for node in reversed(graph):
        if not any(value in found for value in node.outputs):
            continue
        if is_loop(node):
            _reach_through_loop(loop_view(node), found, active)
        elif is_standard(node, "If"):
            for branch in branches(node):
                results = zip(branch.outputs, node.outputs, strict=True)
                found.update(inner for inner, result in results if result in found)
                _extend_reaching(branch, found, active)
        elif is_standard(node, "SequenceMap"):
            _reach_through_map(node, found, active)
        elif passes_gradient(node):
            found.update(value for value in operands(node) if value in active)


def _reach_through_map(node: ir.Node, found: Values, active: Values) -> None:
    body = node.attributes["body"].as_graph()
    results = zip(body.outputs, node.outputs, strict=True)
    found.update(inner for inner, result in results if result in found)
    _extend_reaching(body, found, active)
    pairs = zip(node.inputs, body.inputs, strict=True)
    found.update(outside for outside, element in pairs if outside in active and element in found)


def _reach_through_loop(view: LoopView, found: Values, active: Values) -> None:
    found.update(c.output for c in view.carries if c.result in found and c.input in active)
    found.update(s.row for s in view.scan_outputs if s.stack in found)
    while True:
        _extend_reaching(view.body, found, active)
        fed_back = {c.output for c in view.carries if c.input in found} - found
        if not fed_back:
            break
        found.update(fed_back)
    for carry in view.carries:
        if carry.output in found:  # no trip hands the initial value on, read in the body or not
            found.update(v for v in (carry.input, carry.initial) if v in active)
    found.update(s.stack for s in view.scan_inputs if s.row in found)


def carries_reached(view: LoopView, results: Values, active: Values) -> list[int]:
    """Return the indices of the carried values that get a cotangent in some trip.

    `results` are the loop's outputs that have a cotangent.
    """
    found = set(results)
    _reach_through_loop(view, found, active)
    return [
        index
        for index, carry in enumerate(view.carries)
        if carry.input in active and (carry.output in found or carry.input in found)
    ]


def connected(
    graph: ir.Graph, of: Collection[str], wrt: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which outputs of a main graph depend on any of some inputs, and which of these do."""
    nodes = list(graph)
    active = dependents(nodes, [value for value in graph.inputs if value.name in wrt])
    targets = [value for value in graph.outputs if value.name in of and value in active]
    reached = reaching(nodes, targets, active)
    inputs = [value for value in graph.inputs if value.name in wrt and value in reached]
    return tuple(str(v.name) for v in targets), tuple(str(v.name) for v in inputs)
