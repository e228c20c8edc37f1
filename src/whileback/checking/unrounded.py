"""The model that a quantised one stands for: the same, but nothing is rounded to whole numbers.

That is what straight-through gradients are gradients of, so that finite differences can judge them.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.activity import dependents
from whileback.gradient.registry import lookup
from whileback.gradient.straight_through import function_of, outputs_of
from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.moving import taken_out
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.schemas import type_letters
from whileback.graph.scopes import branches, is_loop, is_standard, loop_view, subgraphs, walk
from whileback.graph.shapes import NARROW, Shapes

__all__ = ["without_rounding"]

_FLOAT = ir.DataType.FLOAT


def without_rounding(model: ir.Model) -> ir.Model:
    """Return a copy of a model in normal form that rounds nothing, though it still clips.

    What would be rounded, and what is computed of that, is FLOAT. Names stay.
    """
    result = normalize(model)
    graph = result.graph
    rounding = [node for node in walk(graph) if (entry := lookup(node)) and entry.rounds]
    rounded = [v for node in rounding for v in node.outputs if v.dtype in NARROW]
    carriers = {value for value in dependents(graph, rounded) if value.dtype in NARROW}
    for value in carriers:
        producer = value.producer()
        if producer is None or function_of(producer) is None:
            value.type = _widened(value.type)
    _rewrite(Builder(graph, Names.of(graph), Shapes(graph.opset_imports)), carriers)
    return result


def _widened(type_: ir.TypeProtocol | None) -> ir.TypeProtocol:
    if isinstance(type_, ir.SequenceType | ir.OptionalType):
        return type(type_)(_widened(type_.elem_type))
    return ir.TensorType(_FLOAT)


def _rewrite(op: Builder, carriers: set[ir.Value]) -> None:
    """Take all nodes out and put them back one by one, or what they compute before they round."""
    graph = op.graph
    for node in taken_out(graph):
        for inner in subgraphs(node):
            _rewrite(op.within(inner), carriers)
        if function_of(node) is None:
            _convert(op, node, carriers)
        graph.append(node)
        _replace(op, node, carriers)


def _replace(op: Builder, node: ir.Node, carriers: set[ir.Value]) -> None:
    """Let others read what an operator computes before it rounds."""
    function = function_of(node)
    if function is None:
        return
    results = outputs_of(function, op, node)
    for old, new in zip(node.outputs, results, strict=False):
        if new is not None:
            named = op.Identity(new)
            old.replace_all_uses_with(named, replace_graph_outputs=True)
            old.name, named.name = op.names.fresh(f"{old.name}/rounded"), old.name
            named.shape = named.shape or old.shape
            carriers.add(named)
    if None not in results:
        discard(op.graph, node)


def _convert(op: Builder, node: ir.Node, carriers: set[ir.Value]) -> None:
    """Let a node read floats where it reads, or must give, what is not rounded any more."""
    if is_standard(node, "If"):
        for branch in branches(node):
            for index, (inner, outer) in enumerate(zip(branch.outputs, node.outputs, strict=True)):
                if outer in carriers and inner.dtype in NARROW:
                    branch.outputs[index] = op.within(branch).cast(inner, _FLOAT)
    elif is_loop(node):
        _convert_loop(op, node, carriers)
    elif is_standard(node, "Cast", "CastLike") and node.outputs[0] in carriers:
        node.op_type = "Cast"
        node.resize_inputs(1)
        node.attributes["to"] = ir.AttrInt64("to", int(_FLOAT))
    else:
        _convert_inputs(op, node, carriers)


def _convert_loop(op: Builder, node: ir.Node, carriers: set[ir.Value]) -> None:
    view = loop_view(node)
    body = op.within(view.body)
    for carry in view.carries:
        if carry.input in carriers and carry.initial.dtype in NARROW:
            index = list(node.inputs).index(carry.initial)
            node.replace_input_with(index, op.cast(carry.initial, _FLOAT))
        if carry.input in carriers and carry.output.dtype in NARROW:
            index = list(view.body.outputs).index(carry.output)
            view.body.outputs[index] = body.cast(carry.output, _FLOAT)


def _convert_inputs(op: Builder, node: ir.Node, carriers: set[ir.Value]) -> None:
    inputs, outputs = type_letters(node)
    pairs = [*zip(node.inputs, inputs, strict=True), *zip(node.outputs, outputs, strict=True)]
    letters = {letter for value, letter in pairs if value in carriers and letter}
    for index, (value, letter) in enumerate(zip(node.inputs, inputs, strict=True)):
        if value is not None and letter in letters and value.dtype in NARROW:
            node.replace_input_with(index, op.cast(value, _FLOAT))
