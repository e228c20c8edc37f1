"""Where the tensors of a model are, so that they can be looked at and exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.formats.proto_checks import check_nesting

__all__ = ["Place", "places"]


@dataclass(frozen=True)
class Place:
    """A place in a model that holds a tensor; `put` exchanges it, `where` names it in errors."""

    where: str
    tensor: ir.TensorProtocol
    put: Callable[[ir.TensorProtocol], None]
    is_initializer: bool = False


def places(model: ir.Model) -> Iterator[Place]:
    """Yield every place of `model` that holds a tensor, subgraphs and functions included.

    Raises:
        UnsupportedError: subgraphs are nested deeper than a file can hold.
    """
    yield from _graph_places(model.graph, depth=0)
    for function in model.functions.values():
        where = f"function {function.domain}::{function.name}"
        yield from _attribute_places(function.attributes, where, depth=0)
        yield from _node_places(function, where, depth=0)


def _graph_places(graph: ir.Graph, depth: int) -> Iterator[Place]:
    check_nesting(depth, graph.name or "")
    where = f"graph {graph.name or ''!r}"
    for name, value in graph.initializers.items():
        if value.const_value is not None:
            initializer = f"initializer {name!r} of {where}"
            yield Place(initializer, value.const_value, _value_putter(value), is_initializer=True)
    yield from _node_places(graph, where, depth)


def _node_places(nodes: ir.Graph | ir.Function, where: str, depth: int) -> Iterator[Place]:
    for node in nodes:
        name = node.name or next((value.name for value in node.outputs if value.name), "")
        owner = f"node {name!r} ({node.op_type}) in {where}"
        yield from _attribute_places(node.attributes, owner, depth)


def _attribute_places(
    attributes: MutableMapping[str, ir.Attr], owner: str, depth: int
) -> Iterator[Place]:
    for attribute in list(attributes.values()):
        if attribute.is_ref():
            continue
        where = f"attribute {attribute.name!r} of {owner}"
        if attribute.type == ir.AttributeType.TENSOR:
            yield Place(where, attribute.as_tensor(), _putter(attributes, attribute))
        elif attribute.type == ir.AttributeType.TENSORS:
            for i, tensor in enumerate(attribute.as_tensors()):
                yield Place(where, tensor, _list_putter(attributes, attribute.name, i))
        for graph in _graphs(attribute):
            yield from _graph_places(graph, depth + 1)


def _graphs(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return attribute.as_graphs() if attribute.type == ir.AttributeType.GRAPHS else []


def _value_putter(value: ir.Value) -> Callable[[ir.TensorProtocol], None]:
    def put(new: ir.TensorProtocol) -> None:
        value.const_value = new

    return put


def _putter(
    attributes: MutableMapping[str, ir.Attr], attribute: ir.Attr
) -> Callable[[ir.TensorProtocol], None]:
    def put(new: ir.TensorProtocol) -> None:
        attributes[attribute.name] = ir.AttrTensor(
            attribute.name, new, doc_string=attribute.doc_string
        )

    return put


def _list_putter(
    attributes: MutableMapping[str, ir.Attr], name: str, index: int
) -> Callable[[ir.TensorProtocol], None]:
    def put(new: ir.TensorProtocol) -> None:
        attribute = attributes[name]
        tensors = list(attribute.as_tensors())
        tensors[index] = new
        attributes[name] = ir.AttrTensors(name, tensors, doc_string=attribute.doc_string)

    return put
