"""Replacing composite operators by the functions that ONNX itself defines for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir

from whileback.graph.flatten import instantiate
from whileback.graph.scopes import walk

__all__ = ["expand_graph"]


def expand_graph(
    graph: ir.Graph, target: int, needs_expansion: Callable[[ir.Node], bool]
) -> list[ir.Value] | None:
    """Expand each node of the default domain that needs it and has a definition.

    A definition can hold composite operators in turn, and can be of an older opset: the new nodes
    know theirs.

    Args:
        graph: a main graph, all of whose values have names and types.
        target: the opset of its nodes.
        needs_expansion: tells which operators are to be expanded.

    Returns: the constants of the new nodes, or None if nothing was expanded.
    """
    constants: list[ir.Value] = []
    expanded = False
    for node in list(walk(graph)):
        if node.domain or not needs_expansion(node):
            continue
        function = _definition(node, target)
        if function is not None:
            constants += instantiate(node, function)[1]
            expanded = True
    return constants if expanded else None


def _definition(node: ir.Node, target: int) -> ir.Function | None:
    """Return the function that defines the operator, newest first but not above the target."""
    try:
        # The stubs of onnx do not know that schemas have functions in several versions.
        schema: Any = onnx.defs.get_schema(node.op_type, target, "")
    except onnx.defs.SchemaError:
        return None
    proto = _fixed(schema, target) or _dependent(schema, node, target)
    if proto is None:
        return None
    for name, attribute in schema.attributes.items():
        if name not in node.attributes and attribute.default_value.type:
            node.attributes.add(ir.serde.deserialize_attribute(attribute.default_value))
    _complete_outputs(proto)
    return ir.serde.deserialize_function(proto)


def _complete_outputs(function: onnx.FunctionProto) -> None:
    """Let results that the definition does not make, since nobody asked for them, be anything."""
    made = {name for node in function.node for name in node.output}
    for index, name in enumerate(function.output):
        if name not in made:
            function.output[index] = function.input[0]


def _fixed(schema: Any, target: int) -> onnx.FunctionProto | None:
    versions = [v for v in schema.function_opset_versions if v <= target]
    if not versions:
        return None
    data: bytes = schema.get_function_with_opset_version(max(versions))
    proto: onnx.FunctionProto = onnx.FunctionProto.FromString(data)
    return proto


def _dependent(schema: Any, node: ir.Node, target: int) -> onnx.FunctionProto | None:
    """Return the definition that depends on the node's attributes and the types of its inputs."""
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= target]
    if not versions:
        return None
    types = [
        b"" if value is None else ir.to_proto(value).type.SerializeToString()
        for value in node.inputs
    ]
    data = schema.get_context_dependent_function_with_opset_version(
        max(versions), ir.to_proto(node).SerializeToString(), types
    )
    if not data:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    return function
