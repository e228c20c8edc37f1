"""The models of the corpus in older opsets, with what their operators had there.

ONNX has each model in the opset of its operator's newest version. The same nodes are a model of an
older opset where they are valid there, at times with another meaning (as those of `Softmax` before
opset 13); else where some of their inputs were attributes, or as ONNX's converter writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from tests.corpus.cases import Case

from whileback.engines import compile
from whileback.errors import WhilebackError

__all__ = ["at_opset"]

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_FORMER_NAMES = {"K": "k", "constant_value": "value"}
_ATTRIBUTES: dict[Any, Callable[[str, np.ndarray], ir.Attr]] = {
    onnx.defs.OpSchema.AttrType.FLOAT: lambda name, data: ir.AttrFloat32(name, float(data.item())),
    onnx.defs.OpSchema.AttrType.FLOATS: lambda name, data: ir.AttrFloat32s(name, data.tolist()),
    onnx.defs.OpSchema.AttrType.INT: lambda name, data: ir.AttrInt64(name, int(data.item())),
    onnx.defs.OpSchema.AttrType.INTS: lambda name, data: ir.AttrInt64s(name, data.tolist()),
}


def at_opset(case: Case, opset: int) -> Case | None:
    """Return the case in an opset of the default domain, or None if it cannot be had there."""
    for change in (_declared, _with_attributes, _converted):
        changed = change(case, opset)
        if changed is not None and changed.wrt and _is_valid(changed.model):
            return changed
    return None


def _is_valid(model: ir.Model) -> bool:
    try:
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def _declared(case: Case, opset: int) -> Case | None:
    """Only call it a model of that opset."""
    if "" not in case.model.opset_imports:
        return None
    model = case.model.clone()
    model.opset_imports[""] = model.graph.opset_imports[""] = opset
    return replace(case, model=model)


def _converted(case: Case, opset: int) -> Case | None:
    """Leave it to ONNX, if that gives the same results."""
    try:
        proto = onnx.version_converter.convert_version(ir.to_proto(case.model), opset)
        want, got = (compile(model, threads=1)(case.feeds) for model in (case.model, proto))
    except (RuntimeError, WhilebackError):
        return None
    same = all(np.array_equal(got[name], want[name], equal_nan=True) for name in case.of)
    return replace(case, model=ir.from_proto(proto)) if same else None


def _with_attributes(case: Case, opset: int) -> Case | None:
    """Make attributes of inputs that were attributes, of the values that they have here."""
    changed = _declared(case, opset)
    if changed is None:
        return None
    graph = changed.model.graph
    for node in graph:
        known = onnx.defs.has(node.op_type, opset, node.domain)
        if not known or not _inputs_to_attributes(node, opset, case.feeds):
            return None
    unused = [v for v in graph.inputs if not v.uses() and not v.is_graph_output()]
    graph.inputs[:] = [value for value in graph.inputs if value not in unused]
    names = {str(value.name) for value in graph.inputs}
    feeds = {name: value for name, value in case.feeds.items() if name in names}
    return replace(changed, feeds=feeds, wrt=[name for name in case.wrt if name in names])


def _inputs_to_attributes(node: ir.Node, opset: int, feeds: dict[str, Any]) -> bool:
    """Change one node, and tell whether all that has to be is."""
    old = onnx.defs.get_schema(node.op_type, opset, node.domain)
    new = onnx.defs.get_schema(node.op_type, node.domain)
    if any(each.option == _VARIADIC for each in old.inputs):
        return True
    for index, formal in list(enumerate(new.inputs))[len(old.inputs) : len(node.inputs)]:
        name = _FORMER_NAMES.get(formal.name, formal.name)
        value = node.inputs[index]
        data = _data(value, feeds)
        if value is not None:
            if data is None or name not in old.attributes:
                return False
            attribute = _ATTRIBUTES[old.attributes[name].type](name, np.atleast_1d(data))
            node.attributes[name] = attribute
    node.resize_inputs(min(len(node.inputs), len(old.inputs)))
    return True


def _data(value: ir.Value | None, feeds: dict[str, Any]) -> np.ndarray | None:
    """Return what is known of a value before the model runs."""
    if value is None:
        return None
    producer = value.producer()
    if value.name in feeds:
        return np.asarray(feeds[value.name])
    if producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        return producer.attributes["value"].as_tensor().numpy()
    return None if value.const_value is None else value.const_value.numpy()
