"""Gives models tensors at their ends, of numbers that differences can be taken of.

Only tensors have gradients. Sequences and optionals of floats are made of tensors at the input, and
taken apart into tensors at the output, by nodes that are added here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.graph.shapes import FLOATS

__all__ = ["cut_masked", "feed_tensors", "is_float_tensor", "return_tensors"]


def is_float_tensor(value: ir.Value) -> bool:
    """Tell whether a value is a tensor of floats that have gradients."""
    return isinstance(value.type, ir.TensorType) and value.dtype in FLOATS


def feed_tensors(graph: ir.Graph, arguments: Sequence[Any]) -> dict[str, Any]:
    """Make containers of floats out of inputs that are tensors, and return the arguments."""
    feeds: dict[str, Any] = {}
    inputs: list[ir.Value] = []
    packing: list[ir.Node] = []
    for value, argument in zip(graph.inputs, arguments, strict=True):
        items = argument if isinstance(argument, list) else [argument]
        if not _is_container(value) or argument is None or not items:
            inputs.append(value)
            feeds[str(value.name)] = argument
            continue
        parts = [_become(ir.Value(name=None), value, i, item) for i, item in enumerate(items)]
        inputs += parts
        feeds |= {str(part.name): item for part, item in zip(parts, items, strict=True)}
        packing += _packed(value, parts)
    graph.inputs[:] = inputs
    graph.insert_before(graph[0], packing)
    return feeds


def return_tensors(graph: ir.Graph, results: Sequence[Any]) -> list[Any]:
    """Return tensors instead of containers of floats, and what they should be."""
    outputs: list[ir.Value] = []
    plain: list[Any] = []
    for value, result in zip(list(graph.outputs), results, strict=True):
        if not _is_container(value) or result is None:
            outputs.append(value)
            plain.append(result)
            continue
        content = value
        if isinstance(value.type, ir.OptionalType):
            content = _appended(graph, "OptionalGetElement", value)
        is_list = isinstance(result, list)
        for index, item in enumerate(result if is_list else [result]):
            part = _appended(graph, "SequenceAt", content, index) if is_list else content
            outputs.append(_become(part, value, index, item))
            plain.append(item)
    graph.outputs[:] = outputs
    return plain


def cut_masked(graph: ir.Graph, results: Sequence[Any]) -> None:
    """Return zeros where a result is infinite, which no difference can be taken of.

    Finite arguments make it so where a mask says that a place does not count; some engines have
    a large number there.
    """
    for index, (value, result) in enumerate(zip(list(graph.outputs), results, strict=True)):
        if is_float_tensor(value) and np.isinf(result.astype(np.float64)).any():
            number = result.dtype.type
            small = _appended(graph, "Less", _appended(graph, "Abs", value), number(1e30))
            part = _appended(graph, "Where", small, value, number(0))
            graph.outputs[index] = _become(part, value, 0, result)


def _is_container(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.TensorType) and value.dtype in FLOATS


def _become(part: ir.Value, whole: ir.Value, index: int, item: np.ndarray) -> ir.Value:
    """Make a value the tensor that is part of another one."""
    part.name, part.type = f"{whole.name}_{index}", ir.TensorType(whole.dtype)
    part.shape = ir.Shape(item.shape)
    return part


def _packed(value: ir.Value, parts: Sequence[ir.Value]) -> Iterator[ir.Node]:
    """Yield the nodes that make what was the input."""
    operators = {ir.SequenceType: "SequenceConstruct", ir.OptionalType: "Optional"}
    types = [value.type]
    while isinstance(types[-1].elem_type, ir.SequenceType):
        types.append(types[-1].elem_type)
    content = list(parts)
    for each in reversed(types):
        node = ir.node(operators[type(each)], content)
        content = [node.outputs[0]]
        content[0].name = f"{value.name}_{node.op_type}"
        yield node
    value.replace_all_uses_with(content[0], replace_graph_outputs=True)


def _appended(graph: ir.Graph, op_type: str, value: ir.Value, *others: Any) -> ir.Value:
    """Append a node to the graph, of values and numbers."""
    name = f"{value.name}_{op_type}_{len(graph)}"
    inputs = [value]
    for index, other in enumerate(others):
        if not isinstance(other, ir.Value):
            tensor = ir.tensor(np.asarray(other), name=f"{name}_{index}")
            other = ir.Value(name=tensor.name, const_value=tensor)
            other.type, other.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape)
            graph.register_initializer(other)
        inputs.append(other)
    node = ir.node(op_type, inputs)
    graph.append(node)
    node.outputs[0].name = name
    return node.outputs[0]
