"""Replacing composite operators by what they are made of: see also `definitions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from whileback.graph import definitions as _registered  # noqa: F401
from whileback.graph.definitions.table import Definer, definitions
from whileback.graph.flatten import instantiate
from whileback.graph.names import Names
from whileback.graph.scopes import captures, subgraphs, walk
from whileback.graph.shapes import Shapes

__all__ = ["expand_graph"]


def expand_graph(
    graph: ir.Graph, target: int, needs_expansion: Callable[[ir.Node], bool]
) -> list[ir.Value] | None:
    """Expand each node that needs it and has a definition, in our own table or in ONNX.

    A definition can hold composite operators in turn, and can be of an older opset: the new nodes
    know theirs. Our own need the types of what a node reads; without them the node stays.

    Args:
        graph: a main graph, all of whose values have names, and types where they can be inferred.
        target: the opset of the nodes of the default domain.
        needs_expansion: tells which operators are to be expanded.

    Returns: the constants of the new nodes, or None if nothing was expanded.
    """
    # Most models need none, and the names of a large one take a while.
    definer = cache(lambda: Definer(graph, Names.of(graph), Shapes(graph.opset_imports)))
    constants: list[ir.Value] = []
    expanded = False
    for node in list(walk(graph)):
        if not needs_expansion(node):
            if expanded and any(value.type is None for value in node.outputs):
                definer().shapes.infer(node)
            continue
        define = definitions().get((node.domain, node.op_type))
        if define is not None:
            _complete_attributes(node, graph.opset_imports.get(node.domain, 1))
            expanded |= definer().replace(node, define)
            continue
        function = _definition(node, graph.opset_imports | {"": target})
        if function is not None:
            constants += instantiate(node, function)[1]
            expanded = True
    return constants if expanded else None


def _definition(node: ir.Node, opsets: Mapping[str, int]) -> ir.Function | None:
    """Return ONNX's function for the operator, newest first but not above the opset.

    The node gets the defaults of its attributes, and what its graphs read from outside as inputs.
    """
    version = opsets.get(node.domain, 1)
    try:
        # The stubs of onnx do not know that schemas have functions in several versions.
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    proto = _fixed(schema, version) or _dependent(schema, node, version)
    if proto is None:
        return None
    _complete_attributes(node, version)
    _complete_outputs(proto)
    if all(opset.domain for opset in proto.opset_import):
        proto.opset_import.add(version=opsets[""])
    return ir.serde.deserialize_function(proto)


def _complete_attributes(node: ir.Node, version: int) -> None:
    """Give the node the defaults of its attributes, as far as ONNX knows the operator."""
    if not onnx.defs.has(node.op_type, version, node.domain):
        return
    for name, attribute in onnx.defs.get_schema(
        node.op_type, version, node.domain
    ).attributes.items():
        if name not in node.attributes and attribute.default_value.type:
            node.attributes.add(ir.serde.deserialize_attribute(attribute.default_value))


def _complete_outputs(function: onnx.FunctionProto) -> None:
    """Let results that the definition does not make, since nobody asked for them, be anything."""
    made = {name for node in function.node for name in node.output}
    for index, name in enumerate(function.output):
        if name not in made:
            function.output[index] = function.input[0]


def _fixed(schema: Any, version: int) -> onnx.FunctionProto | None:
    versions = [v for v in schema.function_opset_versions if v <= version]
    if not versions:
        return None
    data: bytes = schema.get_function_with_opset_version(max(versions))
    proto: onnx.FunctionProto = onnx.FunctionProto.FromString(data)
    return proto


def _dependent(schema: Any, node: ir.Node, version: int) -> onnx.FunctionProto | None:
    """Return the definition that depends on the node's attributes and the types of its inputs."""
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not versions:
        return None
    types = [
        b"" if value is None else ir.to_proto(value).type.SerializeToString()
        for value in node.inputs
    ]
    proto = ir.to_proto(node)
    outer = {str(value.name): value for graph in subgraphs(node) for value in captures(graph)}
    # Not to be taken for a value of the definition that happens to have the name.
    names = {name: f"outer_{index}" for index, name in enumerate(outer)}
    _rename_inputs(proto, names)
    data = schema.get_context_dependent_function_with_opset_version(
        max(versions), proto.SerializeToString(), types
    )
    if not data:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    _hand_over(node, function, dict(zip(names.values(), outer.values(), strict=True)))
    return function


def _rename_inputs(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename what the nodes inside a node read."""
    for inner in _inner_nodes(node):
        inner.input[:] = [names.get(name, name) for name in inner.input]
        _rename_inputs(inner, names)


def _inner_nodes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from graph.node


def _hand_over(node: ir.Node, function: onnx.FunctionProto, outer: Mapping[str, ir.Value]) -> None:
    """Make arguments of what the node's graphs read from outside, by its names in the function."""
    if not outer:
        return
    node.resize_inputs(len(function.input))
    for name, value in outer.items():
        function.input.append(name)
        node.resize_inputs(len(function.input))
        node.replace_input_with(len(function.input) - 1, value)
