"""The float64 twin of a model: the same function, exact enough to take differences of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from whileback.checking.expand import expand
from whileback.graph.copying import clone
from whileback.graph.definitions.table import definitions
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.scopes import STANDARD_DOMAINS, is_standard, walk
from whileback.graph.shapes import FLOATS, Shapes, forget_symbolic_data
from whileback.graph.sorting import is_sorted

__all__ = ["float64_twin"]

_OLDEST_OPSET = 18  # of what the expansions are made of
_DOUBLE = ir.DataType.DOUBLE
# Attributes that name an element type.
_TYPE_ATTRIBUTES = (
    "to",
    "dtype",
    "output_datatype",
    "output_dtype",
    "stash_type",
    "softmax_precision",
)


def float64_twin(model: ir.Model, feeds: Mapping[str, Any] | None = None) -> ir.Model:
    """Return a copy of the model in which every float tensor is DOUBLE.

    That includes inputs, initializers, constants, targets of casts and declared types, in all
    subgraphs. Operators that ONNX Runtime has no double kernel for are expanded into others,
    after a model of an old opset or with functions is brought into normal form. An operator that
    the specification does not allow DOUBLE for is replaced by the function that defines it, or
    (the `scales` of `Resize`) gets that input cast to FLOAT, and rounds.

    Given the arguments `feeds` that it will get, it knows their shapes, and whole numbers as
    constants: some expansions depend on ranks.
    """
    twin = _own_form(model)
    _settle(twin.graph, feeds or {})
    for graph in twin.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            _widen_value(value)
        for node in graph:
            _widen_node(node)
    shapes = Shapes(twin.opset_imports)
    shapes.reserve(twin.graph)
    shapes.infer_graph(twin.graph)
    expand(twin, shapes)
    for graph in twin.graphs():
        for node in list(graph):
            _respect_schema(graph, node, twin.opset_imports.get(node.domain, 1))
    forget_symbolic_data(twin.graph)
    return twin


def _settle(graph: ir.Graph, feeds: Mapping[str, Any]) -> None:
    """Give inputs the shapes of their arguments, and make constants of whole numbers."""
    names = Names.of(graph)
    for value in graph.inputs:
        argument = feeds.get(str(value.name))
        if not isinstance(argument, np.ndarray):
            continue
        value.shape = ir.Shape(argument.shape)
        if argument.dtype.kind in "biu":
            tensor = ir.tensor(argument, name=names.fresh(f"{value.name}_given"))
            constant = ir.Value(name=tensor.name, type=value.type, const_value=tensor)
            constant.shape = value.shape
            value.replace_all_uses_with(constant, replace_graph_outputs=True)
            graph.register_initializer(constant)


def _own_form(model: ir.Model) -> ir.Model:
    """Return a copy that has the form which the expansions need, normalized only if it must be."""
    old = model.opset_imports.get("", 0) < _OLDEST_OPSET
    narrow = any(map(_is_narrow, walk(model.graph)))
    if old or narrow or model.functions or not is_sorted(model.graph):
        return normalize(model, needs_expansion=_is_narrow)
    return clone(model)


def _is_narrow(node: ir.Node) -> bool:
    """Tell whether an operator is defined by others, and does not allow DOUBLE by itself."""
    if (node.domain, node.op_type) in definitions():
        return True
    if node.domain not in STANDARD_DOMAINS or not onnx.defs.has(node.op_type):
        return False
    schema = onnx.defs.get_schema(node.op_type)
    # The stubs of onnx lack both.
    defined = schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined]
    return bool(defined) and any(map(_lacks_double, schema.inputs))


def _widen_value(value: ir.Value) -> None:
    if value.const_value is not None and value.const_value.dtype in FLOATS:
        value.const_value = _widen_tensor(value.const_value)
    if value.type is not None and value.dtype in FLOATS:
        value.type = _retyped(value.type, _DOUBLE)


def _retyped(old: ir.TypeProtocol, dtype: ir.DataType) -> ir.TypeProtocol:
    """Return the type with another element type; a clone shares its types with the original."""
    if isinstance(old, ir.SequenceType | ir.OptionalType):
        return type(old)(_retyped(old.elem_type, dtype))
    return ir.TensorType(dtype)


def _widen_tensor(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.tensor(tensor.numpy().astype(np.float64), name=tensor.name)


def _copied(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Copy a constant, since a clone shares it, and inference names it; widen floats."""
    if tensor.dtype in FLOATS:
        return _widen_tensor(tensor)
    return tensor if tensor.dtype == ir.DataType.STRING else ir.tensor(tensor.numpy())


def _widen_node(node: ir.Node) -> None:
    for attribute in list(node.attributes.values()):
        node.attributes[attribute.name] = _widen_attribute(node, attribute)
    for name in ("value_float", "value_floats"):
        if is_standard(node, "Constant") and name in node.attributes:
            numbers = np.array(node.attributes.pop(name).value, np.float64)
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(numbers))
    if is_standard(node, "ConstantOfShape") and "value" not in node.attributes:
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.zeros(1)))
    for name in _default_types(node):
        node.attributes[name] = ir.AttrInt64(name, int(_DOUBLE))
    for value in node.outputs:
        _widen_value(value)


def _widen_attribute(node: ir.Node, attribute: ir.Attr) -> ir.Attr:
    if attribute.type == ir.AttributeType.TENSOR:
        return ir.AttrTensor(attribute.name, _copied(attribute.as_tensor()))
    if attribute.type == ir.AttributeType.TYPE_PROTO and attribute.value.type.dtype in FLOATS:
        wide = _retyped(attribute.value.type, _DOUBLE)
        return ir.AttrTypeProto(attribute.name, ir.TypeAndShape(wide, attribute.value.shape))
    names_type = attribute.name in _TYPE_ATTRIBUTES and attribute.type == ir.AttributeType.INT
    if names_type and not is_standard(node, "BitCast") and attribute.as_int() in FLOATS:
        return ir.AttrInt64(attribute.name, int(_DOUBLE))
    return attribute


def _default_types(node: ir.Node) -> list[str]:
    """Return the element types that the node leaves at their default, FLOAT."""
    defaults = {
        "dtype": ("RandomNormal", "RandomUniform", "SequenceEmpty"),
        "output_datatype": ("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"),
        "stash_type": ("GroupNormalization", "LayerNormalization", "RMSNormalization"),
    }
    return [
        name
        for name, operators in defaults.items()
        if is_standard(node, *operators) and name not in node.attributes
    ]


def _respect_schema(graph: ir.Graph, node: ir.Node, version: int) -> None:
    """Go through FLOAT where the operator's schema allows FLOAT, but not DOUBLE."""
    if not onnx.defs.has(node.op_type, version, node.domain):
        return
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    for index, value in enumerate(node.inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is not None and _may_be_double(value) and _lacks_double(formal):
            cast = ir.node("Cast", [value], {"to": int(ir.DataType.FLOAT)})
            graph.insert_before(node, cast)
            node.replace_input_with(index, cast.outputs[0])
    for index, value in enumerate(node.outputs):
        formal = schema.outputs[min(index, len(schema.outputs) - 1)]
        if _may_be_double(value) and _lacks_double(formal):
            _widen_output(graph, node, value)


def _may_be_double(value: ir.Value) -> bool:
    return value.type is None or value.type == ir.TensorType(_DOUBLE)


def _lacks_double(formal: onnx.defs.OpSchema.FormalParameter) -> bool:
    return "tensor(float)" in formal.types and "tensor(double)" not in formal.types


def _widen_output(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    cast = ir.node("Cast", [value], {"to": int(_DOUBLE)})
    wide = cast.outputs[0]
    value.name, wide.name = f"{value.name}/narrow", value.name
    wide.type, wide.shape = ir.TensorType(_DOUBLE), value.shape
    value.type = ir.TensorType(ir.DataType.FLOAT)
    graph.insert_after(node, cast)
    value.replace_all_uses_with(wide, replace_graph_outputs=True)
    cast.replace_input_with(0, value)
