"""Models that hold ONNX's own operator `Gradient`: it is replaced by what it computes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.errors import GraphError, UnsupportedError, nearest
from whileback.gradient.activity import dependents, reaching
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.gradient.coverage import check_coverage
from whileback.graph.builder import Builder
from whileback.graph.copying import ValueMap, copy_node
from whileback.graph.names import Names, label
from whileback.graph.scopes import definitions, operands, walk
from whileback.graph.shapes import Shapes, describe, size
from whileback.graph.sorting import sort

__all__ = ["GRADIENT", "expand_gradients"]

GRADIENT = ("ai.onnx.preview.training", "Gradient")


def expand_gradients(model: ir.Model) -> None:
    """Replace every `Gradient` of a model in normal form by the operators that compute it.

    The node names a value y of its graph, and the values with respect to which that is
    differentiated. It reads where: if not at those values themselves, the way to y is computed
    again.

    Raises:
        GraphError: a node names values that are not there, or nodes differentiate each other.
        NoGradientError: operators on the way have no rule.
        UnsupportedError: a node is inside a subgraph, or its y has more than one element.
    """
    graph = model.graph
    waiting = [node for node in walk(graph) if (node.domain, node.op_type) == GRADIENT]
    while waiting:
        ways = [_way(graph, node) for node in waiting]
        ready = next((way for way in ways if not set(way.nodes).intersection(waiting)), None)
        if ready is None:
            raise GraphError(
                f"The nodes {', '.join(map(label, waiting))} (Gradient) differentiate each other's "
                "results. Correct the model."
            )
        _replace(model, ready)
        waiting.remove(ready.node)
        sort(graph)
        Shapes(graph.opset_imports).infer_graph(graph)


@dataclass(frozen=True)
class _Way:
    """What a `Gradient` differentiates: y, computed by these nodes from xs and other values.

    `given` holds for each of the values that it names what the node reads in its place.
    """

    node: ir.Node
    xs: list[ir.Value]
    y: ir.Value
    given: ValueMap
    nodes: list[ir.Node]


def _way(graph: ir.Graph, node: ir.Node) -> _Way:
    if node.graph is not graph:
        raise UnsupportedError(
            f"Node {label(node)} (Gradient) is inside a subgraph, where it is not expanded. Take "
            "it, and what it differentiates, out of there, or differentiate "
            "with whileback.gradient() instead."
        )
    xs, zs = (
        [_find(graph, node, name) for name in node.attributes.get_strings(key, ())]
        for key in ("xs", "zs")
    )
    y = _find(graph, node, node.attributes["y"].as_string())
    given: ValueMap = dict(zip((*xs, *zs), filter(None, node.inputs), strict=False))
    if len(given) != len(node.inputs):
        raise GraphError(
            f"Node {label(node)} (Gradient) names {len(xs) + len(zs)} values in xs and zs, and "
            f"reads {len(node.inputs)}. It has to read one for each, in their order."
        )
    nodes, needed = list[ir.Node](), {y} - set(given)
    for each in reversed(graph):
        if needed.intersection(each.outputs):
            nodes.insert(0, each)
            needed.update(v for v in operands(each) if v is not None and v not in given)
    return _Way(node, xs, y, given, nodes)


def _find(graph: ir.Graph, node: ir.Node, name: str) -> ir.Value:
    known = {value.name: value for value in definitions(graph) if value.name}
    if name not in known:
        raise GraphError(
            f"Node {label(node)} (Gradient) names '{name}', but the graph has no such value; "
            f"{nearest(name, [str(each) for each in known])}"
        )
    return known[name]


def _replace(model: ir.Model, way: _Way) -> None:
    """Emit the gradient and give it to the readers of the node."""
    if size(way.y) != 1:
        raise UnsupportedError(
            f"Node {label(way.node)} (Gradient) differentiates '{way.y.name}', which is "
            f"{describe(way.y)}: that has one gradient for each of its elements. Sum them, and "
            "differentiate the sum."
        )
    graph, names, shapes = model.graph, Names.of(model.graph), Shapes(model.graph.opset_imports)
    shapes.reserve(graph)
    xs, y, nodes = way.xs, way.y, way.nodes
    if any(value is not given for value, given in way.given.items()):
        copier = Builder(graph, names, shapes)
        replaced = {value: copier.Identity(given) for value, given in way.given.items()}
        xs = [replaced[x] for x in xs]
        nodes = [copy_node(node, replaced, names) for node in nodes]
        y = replaced.get(y, y)
        graph.extend(nodes)
    active = dependents(nodes, xs)
    active &= reaching(nodes, [y], active)
    check_coverage(model, active)
    op = GradientBuilder(graph, names, shapes, active)
    cotangents: Cotangents = {y: op.expand(op.constant(1, y.dtype), y)}
    backward(op, nodes, cotangents)
    op.origin = None
    for output, x in zip(way.node.outputs, xs, strict=False):
        result = op.Identity(cotangents[x] if x in cotangents else op.zeros_like(x))
        result.name, output.name = output.name, None
        result.type, result.shape = x.type, x.shape
        output.replace_all_uses_with(result, replace_graph_outputs=True)
    graph.remove(way.node, safe=True)
