"""Tensors of constants, and tensors under another name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.graph.scopes import is_standard

__all__ = ["FROM_NODE", "constant_tensor", "known_tensor", "rename_value"]

# In the `meta` of an initializer that was a `Constant` node.
FROM_NODE = "whileback.from_node"


def constant_tensor(node: ir.Node, given: Mapping[str, ir.Attr]) -> ir.TensorProtocol | None:
    """Return the tensor of a `Constant` node, None for other nodes, and for one that has none.

    In a function its attribute may refer to one that is `given` to the function.
    """
    if not is_standard(node, "Constant") or len(node.outputs) != 1:
        return None
    for attribute in node.attributes.values():
        source = given.get(str(attribute.ref_attr_name)) if attribute.is_ref() else attribute
        kind, make = _TENSORS.get(attribute.name, (None, None))
        if source is not None and source.type == kind and make is not None:
            return make(source.value)
    return None


def known_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer, or of what a `Constant` node makes, None for others."""
    node = value.producer()
    if value.const_value is not None or node is None:
        return value.const_value
    return constant_tensor(node, {})


def _strings(values: list[str | bytes], shape: tuple[int, ...]) -> ir.TensorProtocol:
    encoded = [v.encode("utf-8") if isinstance(v, str) else v for v in values]
    return ir.StringTensor(encoded, shape=ir.Shape(shape))


_TENSORS: dict[str, tuple[ir.AttributeType, Callable[[Any], ir.TensorProtocol]]] = {
    "value": (ir.AttributeType.TENSOR, lambda tensor: tensor),
    "value_float": (ir.AttributeType.FLOAT, lambda x: ir.tensor(np.array(x, np.float32))),
    "value_floats": (ir.AttributeType.FLOATS, lambda xs: ir.tensor(np.array(xs, np.float32))),
    "value_int": (ir.AttributeType.INT, lambda number: ir.tensor(np.array(number, np.int64))),
    "value_ints": (ir.AttributeType.INTS, lambda numbers: ir.tensor(np.array(numbers, np.int64))),
    "value_string": (ir.AttributeType.STRING, lambda text: _strings([text], ())),
    "value_strings": (
        ir.AttributeType.STRINGS,
        lambda texts: _strings(list(texts), (len(texts),)),
    ),
}


def rename_value(value: ir.Value, name: str) -> None:
    """Rename a value; a tensor that it holds is not renamed, since it may belong to others."""
    if value.const_value is not None and value.const_value.name != name:
        value.const_value = _renamed(value.const_value, name)
    if value.name != name:
        value.name = name


def _renamed(tensor: ir.TensorProtocol, name: str) -> ir.TensorProtocol:
    """Return a view on the tensor under another name; its data is neither read nor copied."""
    if isinstance(tensor, ir.ExternalTensor):
        return ir.ExternalTensor(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=tensor.shape,
            name=name,
            base_dir=tensor.base_dir,
        )
    shape = ir.Shape(tensor.shape.numpy())
    if tensor.dtype == ir.DataType.STRING:
        return ir.StringTensor(tensor.numpy(), shape=shape, name=name)
    return ir.LazyTensor(lambda: tensor, dtype=tensor.dtype, shape=shape, name=name)
