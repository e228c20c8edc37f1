"""Whole numbers that stand for weights: they are trained as floats, straight-through.

Source: Jacob et al., Quantization and training of neural networks for efficient
integer-arithmetic-only inference, arXiv:1712.05877.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.rules.quantization.scaling import limits, out_of_units
from whileback.graph.builder import Builder
from whileback.graph.moving import become, put_first, taken_out
from whileback.graph.names import label
from whileback.graph.scopes import is_standard, walk
from whileback.graph.shapes import FLOATS, describe
from whileback.training.parameters import fitted

__all__ = ["check_whole_numbers", "quantized_masters", "requantized"]


def check_whole_numbers(graph: ir.Graph, patterns: Sequence[str]) -> None:
    """Refuse patterns that fit whole numbers that cannot be trained, and nothing that can.

    Raises: UnsupportedError for one.
    """
    able, other = _held(graph)
    floats = [name for name, value in graph.initializers.items() if value.dtype in FLOATS]
    for pattern in patterns:
        if not fitted([pattern], [*floats, *able]):
            _refuse(pattern, other)


def quantized_masters(op: Builder, wanted: Callable[[str], bool]) -> None:
    """Let whole numbers of the names wanted be floats that are quantised in every run.

    These are initializers of a main graph in normal form that `DequantizeLinear` alone reads, in
    one way; a float of the same name takes the place of each. What has the 32 bits of a bias is not
    rounded.
    """
    start = op.inside("start")
    for name, value in _held(op.graph)[0].items():
        if wanted(name):
            _become_float(start, op.graph, value)
    put_first(op.graph, taken_out(start.graph))


def _held(graph: ir.Graph) -> tuple[dict[str, ir.Value], dict[str, ir.Node]]:
    """Return by name what can be trained, and a reader of each that cannot."""
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in walk(graph):
        for value in node.inputs:
            if value is not None and value.is_initializer() and value.dtype not in FLOATS:
                readers.setdefault(value, []).append(node)
    able = {
        str(value.name): value
        for value, nodes in readers.items()
        if all(_dequantizes(node, value) for node in nodes) and len(set(map(_way, nodes))) == 1
    }
    return able, {str(v.name): nodes[0] for v, nodes in readers.items() if str(v.name) not in able}


def _dequantizes(node: ir.Node, value: ir.Value) -> bool:
    constants = [each for each in node.inputs if each is not None]
    return (
        is_standard(node, "DequantizeLinear")
        and node.inputs[0] is value
        and all(each.is_initializer() for each in constants)
        and value.dtype is not None
        and value.dtype.is_integer()
    )


def _way(node: ir.Node) -> tuple[Hashable, ...]:
    """Return by what a `DequantizeLinear` makes floats of whole numbers."""
    attributes = (node.attributes.get_int(*each) for each in (("axis", 1), ("block_size", 0)))
    return (*node.inputs[1:], *attributes)


def _refuse(pattern: str, other: dict[str, ir.Node]) -> None:
    for name, node in other.items():
        value = next(each for each in node.inputs if each is not None and each.name == name)
        if fitted([pattern], [name]):
            raise UnsupportedError(
                f"trainable= has {pattern!r}, which fits '{name}', {describe(value)}, that node "
                f"{label(node)} ({node.op_type}) reads: of whole numbers, those are trained that "
                "DequantizeLinear reads. Quantise the model in the form of QuantizeLinear and "
                "DequantizeLinear, or train other tensors."
            )


def _become_float(op: Builder, graph: ir.Graph, value: ir.Value) -> None:
    """Put a float that is quantised in the place of whole numbers."""
    nodes = [use.node for use in value.uses()]
    node = nodes[0]
    _, scale, zero_point = [*node.inputs, None][:3]
    name = str(value.name)
    array = _as_floats(node, *(_array(each) for each in (value, scale, zero_point)))
    master = ir.Value(name=name, type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
    master.const_value, master.shape = ir.tensor(array, name=name), ir.Shape(array.shape)
    del graph.initializers[name]
    if value.is_graph_input():
        graph.inputs[graph.inputs.index(value)] = master
    graph.register_initializer(master)
    op.origin, op.role = node, "quantize"
    if value.dtype == ir.DataType.INT32:
        _become(nodes, op.cast(master, node.outputs[0]))
        return
    attributes: dict[str, int | None] = {
        "axis": node.attributes.get_int("axis", 1),
        "block_size": node.attributes.get_int("block_size", 0) or None,
        "output_dtype": int(value.dtype or 0) if zero_point is None else None,
    }
    assert scale is not None
    inputs = [op.cast(master, scale), scale, zero_point]
    (rounded,) = op.emit("QuantizeLinear", inputs, attributes)
    if all(each.graph is graph for each in nodes):
        for each in nodes:
            each.replace_input_with(0, rounded)
        return
    # ONNX Runtime 1.32 dies of a `Transpose` of what `DequantizeLinear` makes that a loop reads.
    axis, block = attributes["axis"], attributes["block_size"]
    result = out_of_units(op, rounded, scale, zero_point, axis, block or 0)
    _become(nodes, op.cast(result, node.outputs[0]))


def _become(nodes: Sequence[ir.Node], value: ir.Value) -> None:
    for node in nodes:
        become(node, "Identity", [value])


def _array(value: ir.Value | None) -> np.ndarray | None:
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _as_floats(
    node: ir.Node, whole: np.ndarray | None, scale: np.ndarray | None, zero: np.ndarray | None
) -> np.ndarray:
    """Return what a `DequantizeLinear` makes of whole numbers: (q - z)·s, at least FLOAT."""
    assert whole is not None and scale is not None
    numbers = whole.astype(np.int32)
    if zero is not None:
        numbers = numbers - _spread(node, zero.astype(np.int32), whole.shape)
    wide = scale if scale.dtype == np.float64 else scale.astype(np.float32)
    return np.asarray(numbers * _spread(node, wide, whole.shape), wide.dtype)


def requantized(
    node: ir.Node, data: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, dtype: ir.DataType
) -> np.ndarray:
    """Return the whole numbers of which a `DequantizeLinear` makes nearly the data."""
    units = np.rint(data / _spread(node, scale.astype(data.dtype), data.shape))
    if zero is not None:
        units = units + _spread(node, zero.astype(np.int32), data.shape)
    return np.asarray(np.clip(units, *limits(dtype)), dtype.numpy())


def _spread(node: ir.Node, parameter: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a scale, or zero point, so that it is broadcast to a shape."""
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    if parameter.size == 1:
        return parameter.reshape(())
    if block:
        return np.repeat(parameter, block, axis).take(range(shape[axis]), axis)
    return parameter.reshape([-1 if each == axis % len(shape) else 1 for each in range(len(shape))])
