"""Gives models of the corpus another float type, as far as ONNX allows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from tests.corpus.cases import Case

from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes

__all__ = ["NotAllowedError", "retyped"]

FLOAT = ir.DataType.FLOAT


class NotAllowedError(Exception):
    """ONNX does not allow the operator in that type."""


def retyped(case: Case, dtype: ir.DataType) -> Case:
    """Return a case whose FLOAT tensors have another type, where the operators' schemas allow it.

    Types of results follow from those; a `Cast` keeps the type that it casts to.

    Raises: NotAllowedError.
    """
    model = case.model.clone()
    fixed = _fixed(model, dtype)
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            _change(value, fixed, dtype)
        for node in graph:
            _change_numbers(node, dtype)
            for value in node.outputs:
                _change(value, fixed, dtype)
    types = {value.name: value.dtype for value in model.graph.inputs}
    if not any(types[name] == dtype for name in case.wrt):
        raise NotAllowedError("no input has that type")
    _infer(model)
    feeds = {
        name: value.astype(dtype.numpy()) if types[name] == dtype else value
        for name, value in case.feeds.items()
    }
    return replace(case, model=model, feeds=feeds)


def _fixed(model: ir.Model, dtype: ir.DataType) -> set[ir.Value]:
    """Return the values which an operator wants in FLOAT, and not in the other type."""
    found = set()
    for node in walk(model.graph):
        version = model.opset_imports.get(node.domain, 1)
        if not onnx.defs.has(node.op_type, version, node.domain):
            continue
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
            for index, value in enumerate(values):
                types = formals[min(index, len(formals) - 1)].types
                if "tensor(float)" in types and f"tensor({dtype.name.lower()})" not in types:
                    found.add(value)
    return found


def _change(value: ir.Value, fixed: set[ir.Value], dtype: ir.DataType) -> None:
    if value.type is None or value.dtype != FLOAT or value in fixed:
        return
    value.type = _swapped(value.type, dtype)
    if value.const_value is not None:
        value.const_value = _converted(value.const_value, dtype)


def _swapped(type_: ir.TypeProtocol, dtype: ir.DataType) -> ir.TypeProtocol:
    if isinstance(type_, ir.SequenceType | ir.OptionalType):
        return type(type_)(_swapped(type_.elem_type, dtype))
    return ir.TensorType(dtype)


def _converted(tensor: Any, dtype: ir.DataType) -> ir.TensorProtocol:
    with np.errstate(over="ignore"):
        return ir.tensor(tensor.numpy().astype(dtype.numpy()), name=tensor.name)


def _change_numbers(node: ir.Node, dtype: ir.DataType) -> None:
    """Change constants, and what makes tensors of a type that an attribute tells."""
    value = node.attributes.get("value")
    tensor = None if value is None or value.type != ir.AttributeType.TENSOR else value.as_tensor()
    if tensor is not None and tensor.dtype == FLOAT:
        node.attributes["value"] = ir.AttrTensor("value", _converted(tensor, dtype))
    number = node.attributes.pop("value_float", None)
    if number is not None:
        tensor = ir.tensor(np.asarray(number.as_float(), dtype.numpy()))
        node.attributes["value"] = ir.AttrTensor("value", tensor)
    if node.attributes.get_int("dtype", 0) == FLOAT:
        node.attributes["dtype"] = ir.AttrInt64("dtype", int(dtype))


def _infer(model: ir.Model) -> None:
    """Let the types of results follow; the checker says whether all of them may be."""
    declared = [(value, value.shape) for value in model.graph.outputs]
    for node in model.graph:
        for value in node.outputs:
            value.type = value.shape = None
    shapes = Shapes(model.opset_imports)
    shapes.reserve(model.graph)
    shapes.infer_graph(model.graph)
    for value, shape in declared:
        value.shape = shape
    try:
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise NotAllowedError(str(error)) from error
