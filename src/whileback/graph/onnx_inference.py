"""Holding the shapes that a node reads against ONNX's own inference, which runtimes use, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir
from onnx.shape_inference import InferenceError, infer_node_outputs

from whileback.graph.scopes import subgraphs

__all__ = ["shape_problem"]

# Shapes, axes and the like are as long; what larger tensors hold plays no part in a shape.
FEW_ELEMENTS = 64


def shape_problem(node: ir.Node, opset: int) -> str | None:
    """Return what is wrong with the shapes that a node of the default domain reads, or None.

    Nothing is said of nodes with graphs inside them, nor of those that read values without a type.
    """
    if subgraphs(node):
        return None
    values = {f"input{k}": value for k, value in enumerate(node.inputs) if value is not None}
    proto = ir.serde.serialize_node(node)
    proto.input[:] = [f"input{k}" if value else "" for k, value in enumerate(node.inputs)]
    types = {name: ir.serde.serialize_value(value).type for name, value in values.items()}
    if not all(kind.WhichOneof("value") for kind in types.values()):
        return None
    try:
        infer_node_outputs(
            onnx.defs.get_schema(node.op_type, opset, ""),
            proto,
            types,
            dict(_constants(values)),
            opset_imports=[onnx.helper.make_opsetid("", opset)],
        )
    except InferenceError as error:
        return str(error).strip().removeprefix("[ShapeInferenceError] ")
    return None


def _constants(values: Mapping[str, ir.Value]) -> Iterator[tuple[str, onnx.TensorProto]]:
    for name, value in values.items():
        if value.const_value is not None and value.const_value.size <= FEW_ELEMENTS:
            yield name, ir.serde.serialize_tensor(value.const_value)
