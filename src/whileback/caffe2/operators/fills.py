"""Filling a tensor with given values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.operators.shapes import check_size
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef, TensorProto
from whileback.formats.caffe2.tensors import numpy_dtype
from whileback.graph.constants import known_ints
from whileback.graph.shapes import describe, rank

__all__ = ["fill_shape", "filled_type"]

# Up to so many equal elements are kept as they are: they may be a shape that others need to know.
FEW_ELEMENTS = 64
GIVEN = {
    "GivenTensorFill": TensorProto.FLOAT,
    "GivenTensorDoubleFill": TensorProto.DOUBLE,
    "GivenTensorBoolFill": TensorProto.BOOL,
    "GivenTensorInt16Fill": TensorProto.INT16,
    "GivenTensorIntFill": TensorProto.INT32,
    "GivenTensorInt64Fill": TensorProto.INT64,
    "GivenTensorStringFill": TensorProto.STRING,
}


def fill_shape(op: Emitter, node: Operator) -> ir.Value:
    """Return the shape that an operator fills: `shape`, or the input's with `extra_shape` behind.

    With `input_as_shape` it is what the input holds.

    Raises: NetDefError if arguments exclude each other, or if the shape is absurd.
    """
    X = node.optional(0)
    if X is None:
        _refuse(node, "extra_shape", "has no input whose shape it could extend")
        shape = op.constant(np.array(node.args.ints("shape", []), np.int64))
    else:
        _refuse(node, "shape", "takes the shape from its input")
        given = node.args.bool("input_as_shape", False)
        shape = _as_shape(op, node, X) if given else op.shape_of(X)
        if extra := node.args.ints("extra_shape", []):
            shape = op.Concat(shape, extra, axis=0)
    known = known_ints(shape)
    if known is not None:
        check_size(node, known)
    return shape


def _as_shape(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    if rank(X) not in (None, 1):
        raise NetDefError(
            f"{label(node.proto)} needs a shape in blob '{node.proto.input[0]}': integers in a "
            f"tensor of rank 1, not {describe(X)}."
        )
    return op.cast(X, ir.DataType.INT64)


def _refuse(node: Operator, argument: str, why: str) -> None:
    if node.args.ints(argument, []):
        raise NetDefError(f"{label(node.proto)} has the argument '{argument}', but {why}.")


def filled_type(op: OperatorDef) -> int:
    """Return `dtype`, or else INT64 for a `value` that is an integer, and FLOAT for any other."""
    integer = any(arg.name == "value" and arg.HasField("i") for arg in op.arg)
    return Arguments(op).int("dtype", TensorProto.INT64 if integer else TensorProto.FLOAT)


def _fill_value(node: Operator) -> np.ndarray:
    """Return `value` as the type that is filled in."""
    arg = next((arg for arg in node.proto.arg if arg.name == "value"), None)
    dtype = numpy_dtype(filled_type(node.proto), label(node.proto))
    if dtype.kind == "O":
        return np.array(arg.s if arg is not None else b"", object)
    if dtype.kind == "f":
        return np.array(node.args.float("value", 0.0), dtype)
    return _integer(node, node.args.int("value", 0), dtype)


def _integer(node: Operator, value: int, dtype: np.dtype) -> np.ndarray:
    if dtype.kind != "b" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise NetDefError(f"{label(node.proto)} has the value {value}, which no {dtype} can be.")
    return np.array(value).astype(dtype)


@lowering("ConstantFill")
def constant_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = `value` everywhere, or what the second input holds."""
    value = node.optional(1)
    if value is None:
        return _filled(op, _fill_value(node), fill_shape(op, node))
    return op.Expand(op.Reshape(value, []), fill_shape(op, node))


@lowering("Float16ConstantFill")
def float16_constant_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = `value` everywhere."""
    value = np.array(node.args.float("value", 0.0), np.float16)
    return _filled(op, value, fill_shape(op, node))


def _filled(op: Emitter, value: np.ndarray, shape: ir.Value) -> ir.Value:
    known = known_ints(shape)
    if known is not None and np.prod(known) <= FEW_ELEMENTS:
        return op.constant(np.full(known, value))
    return op.Expand(op.constant(value), shape)


@lowering("DiagonalFill")
def diagonal_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = `value` where all indices are equal, 0 elsewhere."""
    shape, value = fill_shape(op, node), _fill_value(node)
    zeros = _filled(op, np.zeros_like(value), shape)
    if rank(zeros) in (0, 1):
        raise NetDefError(f"{label(node.proto)} needs two axes, but makes {describe(zeros)}.")
    length = op.ReduceMin(shape, keepdims=1)
    numbers = op.Unsqueeze(op.arange(length), [1])
    places = op.Expand(numbers, op.Concat(length, op.Shape(shape), axis=0))
    return op.ScatterND(zeros, places, op.Expand(op.constant(value), length))


@lowering(*GIVEN)
def given_tensor_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = `values`, in the order of the elements in memory."""
    data_type: int = GIVEN[node.type]
    if node.type == "GivenTensorFill":
        data_type = node.args.int("dtype", data_type)
    dtype = numpy_dtype(data_type, label(node.proto))
    return _given(op, node, _values(node, dtype))


@lowering("GivenTensorByteStringToUInt8Fill")
def byte_string_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = the bytes of the only string in `values`."""
    data = b"".join(node.args.strings("values"))
    return _given(op, node, np.frombuffer(data, np.uint8))


def _values(node: Operator, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "O":
        return np.array(node.args.strings("values"), object)
    numbers = node.args.floats("values") if dtype.kind == "f" else node.args.ints("values")
    return np.array(numbers).astype(dtype)


def _given(op: Emitter, node: Operator, values: np.ndarray) -> ir.Value:
    shape = fill_shape(op, node)
    known = known_ints(shape)
    if known is None:
        return op.Reshape(op.constant(values), shape, allowzero=1)
    if np.prod(known, dtype=np.int64) != len(values):
        raise NetDefError(
            f"{label(node.proto)} has {len(values)} 'values' for the shape {known}, which takes "
            f"{np.prod(known, dtype=np.int64)}."
        )
    return op.constant(values.reshape(known))


not_differentiable(
    "it fills a tensor with given values",
    "ConstantFill",
    "DiagonalFill",
    "Float16ConstantFill",
    "GivenTensorByteStringToUInt8Fill",
    *GIVEN,
)
