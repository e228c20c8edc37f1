"""What a node is, apart from its names, as something that can be compared at once."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np
import onnx_ir as ir

from whileback.graph.scopes import STANDARD_DOMAINS, subgraphs

__all__ = ["attribute_key", "node_key", "operator_key", "tensor_key", "type_key"]


def operator_key(node: ir.Node) -> tuple[str, str, str]:
    """Return domain, operator and overload."""
    domain = "" if node.domain in STANDARD_DOMAINS else node.domain
    return domain, node.op_type, node.overload


def node_key(node: ir.Node) -> Hashable:
    """Return the operator with its attributes; of bodies, the operators that stand in them."""
    attributes = tuple(sorted((a.name, attribute_key(a)) for a in node.attributes.values()))
    bodies = tuple(tuple(inner.op_type for inner in graph) for graph in subgraphs(node))
    return operator_key(node), attributes, bodies, len(node.outputs)


def attribute_key(attribute: ir.Attr) -> str:
    """Return the attribute's type and value, tensors by their contents, nothing of its graphs."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return attribute.type.name
    if attribute.type == ir.AttributeType.TENSOR:
        return str(tensor_key(attribute.as_tensor()))
    if attribute.type == ir.AttributeType.TENSORS:
        return str([tensor_key(tensor) for tensor in attribute.as_tensors()])
    value = attribute.value
    return f"{attribute.type.name} {list(value) if isinstance(value, tuple | list) else value!r}"


def type_key(value: ir.Value) -> Hashable:
    """Return the value's type and shape."""
    return str(value.type), str(value.shape)


def tensor_key(tensor: ir.TensorProtocol) -> tuple[str, tuple[int | str, ...], str]:
    """Return the tensor's type, shape and a digest of its elements."""
    array = tensor.numpy()
    text = array.dtype.kind in "OSUT"
    data = repr(array.tolist()).encode() if text else np.ascontiguousarray(array).tobytes()
    dims = tuple(dim if isinstance(dim, int) else str(dim) for dim in tensor.shape)
    return tensor.dtype.name, dims, hashlib.blake2b(data, digest_size=16).hexdigest()
