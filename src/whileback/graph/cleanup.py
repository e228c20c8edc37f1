"""Removing what nothing needs: dead nodes, unused outputs, copies, work done twice."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable

import onnx_ir as ir

from whileback.graph.origin import is_new
from whileback.graph.randomness import may_draw
from whileback.graph.scopes import (
    branches,
    is_loop,
    is_standard,
    loop_view,
    stands_for,
    subgraphs,
    walk,
)
from whileback.graph.shapes import rank, same_shape, static_shape

__all__ = ["clean", "discard", "prune", "remove_outputs"]

# Marks a node that is there to fail when what was assumed does not hold.
CHECK = "whileback.check"

# These give a result whatever their inputs hold: shapes were checked when they were inferred.
HARMLESS = frozenset(
    "Abs Add And Cast Ceil Constant Cos Equal Erf Exp Floor Gemm Greater GreaterOrEqual "
    "Identity Less LessOrEqual Log MatMul Max Min Mul Neg Not Or Pow Reciprocal ReduceSum Relu "
    "Shape Sigmoid Sign Sin Softmax Softplus Sqrt Sub Tan Tanh Transpose Where Xor".split()
)


def clean(model: ir.Model) -> None:
    """Remove from a model, bodies included, what its outputs do not need.

    Copies (`Identity`) and changes of shape that change nothing go first. What is the same in
    every trip of a loop moves out of it. Then go nodes that compute what another one has
    computed, outputs of loops and branches that nothing reads, and what is left without a reader.
    """
    _bypass(model.graph, whole=False)
    _take_out_invariants(model.graph)
    _merge(model.graph, ChainMap())
    _prune_deep(model.graph)


def discard(graph: ir.Graph, node: ir.Node) -> None:
    """Remove a node whose outputs nothing reads; what it and its bodies read is freed."""
    for inner in subgraphs(node):
        for each in walk(inner):
            each.resize_inputs(0)
    node.resize_inputs(0)
    graph.remove(node)


def prune(graph: ir.Graph) -> None:
    """Remove the nodes and initializers of this graph that no result depends on."""
    results = set(graph.outputs)
    for node in reversed(graph):
        if not any(value.uses() or value in results for value in node.outputs):
            discard(graph, node)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in results and not value.is_graph_input():
            del graph.initializers[name]


def _prune_deep(graph: ir.Graph) -> None:
    """Prune the graph, then each of its bodies, once its unused outputs are gone."""
    prune(graph)
    for node in reversed(graph):
        if not subgraphs(node):
            continue
        _drop_unused_outputs(node, set(graph.outputs))
        for inner in subgraphs(node):
            _prune_deep(inner)
    prune(graph)


def _drop_unused_outputs(node: ir.Node, results: set[ir.Value]) -> None:
    """Take away the stacks of a loop and the outputs of an `If` that nothing reads."""
    if is_standard(node, "If"):
        first, bodies, offset = 0, list(branches(node)), 0
    elif is_loop(node):
        view = loop_view(node)
        first, bodies = len(view.carries), [view.body]
        offset = 0 if view.proceed is None else 1
    else:
        return
    unused = [
        index
        for index, value in enumerate(node.outputs)
        if index >= first and not value.uses() and value not in results
    ]
    if not unused or len(unused) == len(node.outputs):
        return
    for body in bodies:
        kept = [v for i, v in enumerate(body.outputs) if i - offset not in unused]
        body.outputs.clear()
        body.outputs.extend(kept)
    for key in ("scan_output_axes", "scan_output_directions"):
        if key in node.attributes:
            numbers = enumerate(node.attributes[key].as_ints(), start=first)
            node.attributes[key] = ir.AttrInt64s(key, [n for i, n in numbers if i not in unused])
    remove_outputs(node, unused)


def remove_outputs(node: ir.Node, unused: list[int]) -> None:
    """Shift the outputs that stay to the front; a node's outputs can only be cut at its end."""
    staying = [value for index, value in enumerate(node.outputs) if index not in unused]
    for target, value in zip(node.outputs, staying, strict=False):
        if target is not value:
            _swap(target, value)
    node.resize_outputs(len(staying))


def _swap(target: ir.Value, value: ir.Value) -> None:
    """Let `target` stand for `value`, which comes later among the same node's outputs."""
    value.replace_all_uses_with(target, replace_graph_outputs=True)
    target.type, target.shape, target.const_value = value.type, value.shape, None
    target.metadata_props.clear()
    target.metadata_props.update(value.metadata_props)
    target.name, value.name = value.name, None


def _bypass(graph: ir.Graph, whole: bool) -> None:
    """Let the readers of a node that changes nothing read its input.

    Unless `whole`, nodes of the model itself stay: their outputs can be asked for by name. Those
    that give a value its shape stay everywhere: a stack of no trips has sizes of 0 where the graph
    says `N`, and the model may count on mending that.
    """
    for node in graph:
        for inner in subgraphs(node):
            _bypass(inner, whole=True)
        ours = is_new(node) or (whole and not is_standard(node, "Expand", "Reshape"))
        if ours and len(node.outputs) == 1 and not node.outputs[0].is_graph_output():
            source = node.inputs[0] if _changes_nothing(node) else _undone(node)
            if source is not None:
                node.outputs[0].replace_all_uses_with(source)
        if is_standard(node, "Loop"):
            _return_directly(loop_view(node).body)


def _return_directly(body: ir.Graph) -> None:
    """Let the body of a `Loop` return a value itself instead of a copy of it.

    Every `Identity` costs a tenth of a microsecond in every trip. Only a `Loop` may return one of
    its inputs, or one value twice. Of the number of the trip, returned as it is, ONNX Runtime 1.32
    stacks the last one over and over.
    """
    own = set(body.inputs[1:]).union(*(node.outputs for node in body))
    for index, value in enumerate(body.outputs):
        node = value.producer()
        if node is not None and is_standard(node, "Identity") and node.inputs[0] in own:
            body.outputs[index] = node.inputs[0]


def _take_out_invariants(graph: ir.Graph) -> None:
    """Move nodes that are the same in every trip before the loop, inner loops first.

    Only those that cannot fail: a loop that makes no trip does not run them.
    """
    for node in list(graph):
        for inner in subgraphs(node):
            _take_out_invariants(inner)
        if is_loop(node):
            _move_fixed(loop_view(node).body, set(), node)


def _move_fixed(body: ir.Graph, changing: set[ir.Value], loop: ir.Node) -> None:
    """Move the nodes of a body, or of a branch in it, that read nothing `changing`.

    What a branch reads may fit together only where it is taken: of a branch that was not, nothing
    is kept.
    """
    assert loop.graph is not None
    changing.update(body.inputs)
    taken = body is loop.attributes["body"].as_graph()
    for node in list(body):
        fixed = changing.isdisjoint(node.inputs) and _is_harmless(node)
        fixed = fixed and (taken or _surely_fits(node))
        if fixed and not any(value.is_graph_output() for value in node.outputs):
            body.remove(node)
            loop.graph.insert_before(loop, node)
            continue
        if is_standard(node, "If"):
            for branch in branches(node):
                _move_fixed(branch, changing, loop)
        changing.update(node.outputs)


def _is_harmless(node: ir.Node) -> bool:
    """Tell whether the node gives a result, whatever its inputs hold."""
    if is_standard(node, "Expand") and node.inputs[0] is not None:
        return rank(node.inputs[0]) == 0
    return is_standard(node, *HARMLESS)


def _surely_fits(node: ir.Node) -> bool:
    """Tell whether the shapes of what the node reads are known to fit together."""
    read = [value for value in node.inputs if value is not None and rank(value) != 0]
    same = all(same_shape(read[0], value) for value in read[1:])
    return same or all(static_shape(value) is not None for value in read)


def _changes_nothing(node: ir.Node) -> bool:
    if is_standard(node, "Identity"):
        return True
    source = node.inputs[0] if node.inputs else None
    if (
        source is None
        or CHECK in node.metadata_props
        or not is_standard(node, "Expand", "Reshape", "Cast", "Transpose")
    ):
        return False
    if node.op_type == "Cast":
        return source.dtype is not None and source.dtype == node.outputs[0].dtype
    if node.op_type == "Transpose":
        permutation = node.attributes.get_ints("perm", None)
        return permutation is not None and list(permutation) == sorted(permutation)
    return same_shape(source, node.outputs[0])


def _undone(node: ir.Node) -> ir.Value | None:
    """Return what was transposed if the node transposes that back."""
    before = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    if before is None or not all(is_standard(each, "Transpose") for each in (before, node)):
        return None
    first, second = (each.attributes.get_ints("perm", None) for each in (before, node))
    if first is None or second is None or [first[axis] for axis in second] != sorted(first):
        return None
    return before.inputs[0]


def _merge(graph: ir.Graph, known: ChainMap[Hashable, ir.Value]) -> None:
    """Let the readers of a node read an earlier one that computes the same, outer ones included.

    Nodes with subgraphs, with several outputs and those that draw random numbers stay apart.
    """
    for node in list(graph):
        for inner in subgraphs(node):
            _merge(inner, known.new_child())
        key = _key(node)
        if key is None:
            continue
        earlier = known.setdefault(key, node.outputs[0])
        if (
            earlier is not node.outputs[0]
            and is_new(node)
            and not node.outputs[0].is_graph_output()
        ):
            node.outputs[0].replace_all_uses_with(earlier)


def _key(node: ir.Node) -> Hashable:
    """Return what the node computes, or None if it stays apart."""
    if len(node.outputs) != 1 or subgraphs(node) or may_draw(node) or is_standard(node, "Constant"):
        return None
    attributes = tuple(sorted((a.name, a.type, _frozen(a)) for a in node.attributes.values()))
    op_type = stands_for(node) or node.op_type
    return (node.domain, op_type, tuple(id(v) for v in node.inputs), attributes)


def _frozen(attribute: ir.Attr) -> Hashable:
    value = attribute.value
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return value if isinstance(value, (int, float, str, bytes)) else id(value)
