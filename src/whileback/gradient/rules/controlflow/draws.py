"""Random numbers in loops: what is drawn is kept, and nothing draws again on the way back.

A branch or a loop in a loop's body runs again on the way back. Its forward run is made to return
what is drawn in it, however deep inside; the loop keeps that as it keeps other values, and the run
on the way back reads it in the place of drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.tape import add_branch_output, stack_of
from whileback.gradient.rules.controlflow.variation import shape_varies
from whileback.gradient.rules.nn.dropout import dropped
from whileback.gradient.rules.nn.outputs import extra_output
from whileback.graph.cleanup import discard
from whileback.graph.copying import ValueMap, copy_node
from whileback.graph.moving import put_first, taken_out
from whileback.graph.randomness import draws
from whileback.graph.scopes import (
    branches,
    captures,
    is_loop,
    is_standard,
    loop_view,
    scan_axes,
    subgraphs,
)
from whileback.graph.shapes import same_shape, static_shape

__all__ = ["draw", "drawn_inside", "run_again", "surface_draws"]


def draw(op: GradientBuilder, node: ir.Node) -> ir.Value:
    """Return what a node draws that has no subgraphs; of `Dropout` it is the mask."""
    if is_standard(node, "Dropout"):
        return extra_output(op, node, 1, ir.DataType.BOOL)
    return node.outputs[0]


def surface_draws(op: GradientBuilder, nodes: Iterable[ir.Node]) -> None:
    """Let nodes, such as those of a loop's body, return what is drawn inside of them.

    `op.drawn` gets the output for each value that is drawn. A value stays inside if its shape
    changes from trip to trip of an inner loop, so that it cannot be stacked.
    """
    for node in nodes:
        for inner in subgraphs(node) if draws(node) else ():
            surface_draws(op, inner)
            for value in _drawn_in(op, inner):
                result = _returned(op, node, inner, value)
                if result is not None:
                    op.drawn[value] = result


def drawn_inside(op: GradientBuilder, node: ir.Node) -> list[ir.Value] | None:
    """Return the outputs of a node that tell what is drawn inside of it; None if some do not."""
    found = []
    for inner in subgraphs(node):
        holders = [each for each in inner if subgraphs(each) and draws(each)]
        values = _drawn_in(op, inner)
        if any(drawn_inside(op, each) is None for each in holders) or set(values) - set(op.drawn):
            return None
        found += [op.drawn[value] for value in values]
    return found


def run_again(op: GradientBuilder, node: ir.Node, replaced: ValueMap) -> list[ir.Node]:
    """Return nodes that compute again what a forward node did, with what it drew.

    `replaced` tells what stands for forward values, and gains the outputs of the node.
    """
    if not draws(node):
        return [copy_node(node, replaced, op.names)]
    drawn = (drawn_inside(op, node) or ()) if subgraphs(node) else [draw(op, node)]
    held = {value: replaced.get(value, value) for value in drawn}
    again = op.inside("again").graph
    again.append(copy_node(node, replaced, op.names))
    if subgraphs(node):
        _replay(op, node, again[0], held)
    else:
        replaced[node.outputs[0]] = _substitute(op, again[0], held[draw(op, node)])
    replaced.update(held)
    return taken_out(again)


def _drawn_in(op: GradientBuilder, graph: ir.Graph) -> list[ir.Value]:
    """Return what the nodes of a graph draw, or return because it is drawn inside of them."""
    surfaced = set(op.drawn.values())
    found: list[ir.Value] = []
    for node in graph:
        if subgraphs(node):
            found += [value for value in node.outputs if value in surfaced]
        elif draws(node):
            found.append(draw(op, node))
    return found


def _returned(
    op: GradientBuilder, node: ir.Node, graph: ir.Graph, value: ir.Value
) -> ir.Value | None:
    """Make a node return a value of a graph inside of it; None where that cannot be."""
    if is_loop(node):
        view = loop_view(node)
        varying = shape_varies(view, set(op.drawn.values()))
        return None if value in varying else stack_of(op, view, value)
    if not is_standard(node, "If"):
        return None
    (other,) = (branch for branch in branches(node) if branch is not graph)
    like = value if static_shape(value) is not None else _alike(graph, value)
    return add_branch_output(op, node, graph, other, value, like)


def _alike(branch: ir.Graph, value: ir.Value) -> ir.Value | None:
    """Return a value from outside the branch that has the same shape."""
    return next((outer for outer in captures(branch) if same_shape(outer, value)), None)


def _replay(
    op: GradientBuilder, node: ir.Node, copy: ir.Node, held: Mapping[ir.Value, ir.Value]
) -> None:
    """Let a copy of a node read what the node drew.

    Args:
        op: makes what is needed for that.
        node: the node, with what is drawn in it among its outputs.
        copy: a copy of it.
        held: what stands for these outputs, where the copy is.
    """
    for graph, again in zip(subgraphs(node), subgraphs(copy), strict=True):
        pairs = list(zip(graph, again, strict=True))
        inside = op.inside("replay")
        rows = {
            value: _row(op, inside, copy, held[op.drawn[value]]) for value in _drawn_in(op, graph)
        }
        put_first(again, taken_out(inside.graph))
        for each, each_copy in pairs:
            if subgraphs(each) and draws(each):
                _replay(op, each, each_copy, rows)
            elif draws(each):
                _substitute(op, each_copy, rows[draw(op, each)])


def _row(op: GradientBuilder, inside: GradientBuilder, copy: ir.Node, held: ir.Value) -> ir.Value:
    """Return, inside of a copied node, what was drawn there: a trip's row in a loop."""
    if is_standard(copy, "If"):
        return held
    body = copy.attributes["body"].as_graph()
    if is_standard(copy, "Loop"):
        return inside.Gather(held, body.inputs[0])
    count = copy.attributes["num_scan_inputs"].as_int()
    axes, directions = scan_axes(copy, "input", count)
    row = ir.Value(name=op.names.fresh(f"{held.name}/row"), type=held.type)
    row.shape = None if held.shape is None else ir.Shape(list(held.shape)[1:])
    body.inputs.append(row)
    copy.resize_inputs(len(copy.inputs) + 1)
    copy.replace_input_with(len(copy.inputs) - 1, held)
    for name, numbers in (
        ("scan_input_axes", [*axes, 0]),
        ("scan_input_directions", [*map(int, directions), 0]),
    ):
        copy.attributes[name] = ir.AttrInt64s(name, numbers)
    copy.attributes["num_scan_inputs"] = ir.AttrInt64("num_scan_inputs", count + 1)
    return row


def _substitute(op: GradientBuilder, node: ir.Node, drawn: ir.Value) -> ir.Value:
    """Put what was drawn in the place of a node that draws; return what its first output is."""
    graph, result = node.graph, drawn
    assert graph is not None
    if is_standard(node, "Dropout") and node.inputs[0] is not None:
        inside = op.inside("again")
        result = dropped(inside, node, node.inputs[0], drawn)
        graph.insert_before(node, taken_out(inside.graph))
    for old, new in zip(node.outputs, (result, drawn), strict=False):
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    discard(graph, node)
    return result
