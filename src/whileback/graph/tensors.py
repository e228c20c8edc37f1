"""Tensors of constants, and tensors under another name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.graph.scopes import is_standard

__all__ = ["FROM_NODE", "constant_tensor", "rename_value"]

# In the `meta` of an initializer that was a `Constant` node.
FROM_NODE = "whileback.from_node"


def constant_tensor(node: ir.Node, given: Mapping[str, ir.Attr]) -> ir.TensorProtocol | None:
    """Return the tensor of a `Constant` node, None for other nodes.

    In a function its attribute may refer to one that is `given` to the function.
    """
    if not is_standard(node, "Constant"):
        return None
    for attribute in node.attributes.values():
        source = given.get(str(attribute.ref_attr_name)) if attribute.is_ref() else attribute
        make = _TENSORS.get(attribute.name)
        if source is not None and make is not None:
            return make(source.value)
    return None


def _strings(values: list[str | bytes], shape: tuple[int, ...]) -> ir.TensorProtocol:
    encoded = [v.encode("utf-8") if isinstance(v, str) else v for v in values]
    return ir.StringTensor(encoded, shape=ir.Shape(shape))


_TENSORS: dict[str, Callable[[Any], ir.TensorProtocol]] = {
    "value": lambda tensor: tensor,
    "value_float": lambda number: ir.tensor(np.array(number, np.float32)),
    "value_floats": lambda numbers: ir.tensor(np.array(numbers, np.float32)),
    "value_int": lambda number: ir.tensor(np.array(number, np.int64)),
    "value_ints": lambda numbers: ir.tensor(np.array(numbers, np.int64)),
    "value_string": lambda text: _strings([text], ()),
    "value_strings": lambda texts: _strings(list(texts), (len(texts),)),
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
