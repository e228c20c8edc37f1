"""`export`: what was trained, put back into the model that it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, UnsupportedError, nearest
from whileback.graph.copying import clone
from whileback.graph.normalize import normalize
from whileback.graph.scopes import walk, walk_graphs
from whileback.graph.shapes import HALVES
from whileback.graph.tensors import constant_tensor
from whileback.signatures import require_types
from whileback.training.quantization import requantized
from whileback.training.randomness import hides_draws

__all__ = ["export"]

# Under this key, the copy of a value in a normal form has the value that it was made of.
_ORIGIN = "whileback.origin"


def export(model: ir.Model, tensors: Mapping[str, Any]) -> ir.Model:
    """Return the model with other parameters: with all else as it is, names and opset included.

    External data that is not replaced stays where it is, and is not read.

    Args:
        model: what a step was made of; it stays as it is.
        tensors: by the names that they have in the step, parameters and running statistics, as
            `Trainer.parameters` and `Checkpoint.parameters` give them. What is in a subgraph is
            called `node/branch/name`. Floats take the place of 16 bits, rounded, and of the whole
            numbers that a `DequantizeLinear` reads, quantised by its scale.

    Raises:
        ArgumentError: the model holds no such tensor, or one of another type or shape.
        UnsupportedError: a constant of a function that is called several times has become several.

    >>> import numpy as np, onnx_ir as ir
    >>> model = ir.from_onnx_text('''<ir_version: 8, opset_import: ["" : 13]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> tuned = export(model, {"w": np.array([[3.0]], np.float32)})
    >>> tuned.graph.initializers["w"].const_value.numpy().tolist(), tuned.opset_imports[""]
    ([[3.0]], 13)
    """
    require_types(export, locals())
    result = clone(model)
    places = _places(result)
    put: dict[ir.Value, str] = {}
    for name in sorted(tensors, key=lambda name: _is_quantized(places.get(name))):
        value = _place(model, places, name)
        array = np.asarray(tensors[name])
        if value in put and not np.array_equal(array, tensors[put[value]], equal_nan=True):
            raise UnsupportedError(
                f"'{put[value]}' and '{name}' are one constant of a function that model "
                f"'{model.graph.name}' calls more than once, and were trained apart. Make it an "
                "input of the function, or freeze it with trainable=."
            )
        put[value] = name
        _put(value, _fitting(name, array, value))
    return result


def _place(model: ir.Model, places: Mapping[str, ir.Value], name: str) -> ir.Value:
    if name not in places:
        raise ArgumentError(
            f"Model '{model.graph.name}' holds no tensor '{name}'; {nearest(name, places)}"
        )
    return places[name]


def _places(model: ir.Model) -> dict[str, ir.Value]:
    """Return by its name in normal form every value whose content the model holds."""
    copy = clone(model)
    for here, there in zip(_held(model), _held(copy), strict=True):
        there.meta[_ORIGIN] = here
    normal = normalize(copy, needs_expansion=hides_draws)
    values = normal.graph.initializers.items()
    return {name: value.meta[_ORIGIN] for name, value in values if _ORIGIN in value.meta}


def _held(model: ir.Model) -> Iterator[ir.Value]:
    """Yield initializers and outputs of `Constant`, at any depth, functions included."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for each in walk_graphs(graph):
            yield from each.initializers.values()
        for node in walk(graph):
            if node.op_type == "Constant" and not node.domain:
                yield node.outputs[0]


def _content(value: ir.Value) -> ir.TensorProtocol | None:
    node = value.producer()
    return value.const_value if node is None else constant_tensor(node, {})


def _fitting(name: str, array: np.ndarray, value: ir.Value) -> ir.TensorProtocol:
    """Return an array as the tensor that a value holds."""
    old = _content(value)
    if old is not None and array.dtype.kind == "f":
        array = _narrowed(array, value, old.dtype)
    if old is None or old.dtype.numpy() != array.dtype or tuple(old.shape) != array.shape:
        held = "not known" if old is None else f"{old.dtype.numpy().name}{list(old.shape)}"
        raise ArgumentError(
            f"'{name}' is {held} in the model, but {array.dtype.name}{list(array.shape)} here. "
            "Give what a step of this model has trained."
        )
    return ir.Tensor(array, name=old.name, doc_string=old.doc_string)


def _is_quantized(value: ir.Value | None) -> bool:
    """Tell whether a value holds whole numbers, whose scale is to be known before."""
    old = None if value is None else _content(value)
    return old is not None and old.dtype.is_integer()


def _narrowed(array: np.ndarray, value: ir.Value, dtype: ir.DataType) -> np.ndarray:
    """Return floats in the type that a step trains as floats, others as they are."""
    if dtype in HALVES and array.dtype == np.float32:
        return array.astype(dtype.numpy())
    nodes = [use.node for use in value.uses()]
    if not dtype.is_integer() or {node.op_type for node in nodes} != {"DequantizeLinear"}:
        return array
    node = nodes[0]
    scale, zero = (None if v is None else _content(v) for v in [*node.inputs[1:], None][:2])
    if scale is None or (zero is None and len(node.inputs) > 2):
        return array
    return requantized(node, array, scale.numpy(), None if zero is None else zero.numpy(), dtype)


def _put(value: ir.Value, tensor: ir.TensorProtocol) -> None:
    node = value.producer()
    if node is None:
        value.const_value = tensor
    else:
        node.attributes.clear()
        node.attributes.add(ir.AttrTensor("value", tensor))
