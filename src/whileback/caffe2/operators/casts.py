"""Changes of the type of a tensor's elements."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef, TensorProto
from whileback.formats.caffe2.tensors import numpy_dtype

LARGEST_HALF = 65504.0
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


def type_argument(op: OperatorDef, name: str, default: int) -> int:
    """Return a type of elements that an argument names or numbers.

    Raises: NetDefError if there is no such type.
    """
    args, types = Arguments(op), TensorProto.DataType.DESCRIPTOR
    given = args.string(name) if args.is_string(name) else args.int(name, default)
    if isinstance(given, int):
        found = types.values_by_number.get(given)
    else:
        found = types.values_by_name.get(given.upper())
    if found is None:
        known = ", ".join(types.values_by_name)
        raise NetDefError(f"{label(op)}: its argument '{name}' is {given!r}, not one of {known}.")
    number: int = found.number
    return number


@lowering("Cast")
def cast(op: Emitter, node: Operator) -> ir.Value:
    """Y = X as the type `to`, without what is behind the point for an integer."""
    to = type_argument(node.proto, "to", TensorProto.FLOAT)
    if to == TensorProto.STRING:
        raise UnsupportedError("it writes numbers as text, which nothing here does.")
    dtype = numpy_dtype(to, label(node.proto))
    return op.cast(node.tensors(1)[0], ir.DataType.from_numpy(dtype))


@gradient_operator("Cast")
def cast_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str | None:
    """dX = dY as X's type, which is float where `from_type` does not tell; no integer has one."""
    to = type_argument(op, "to", TensorProto.FLOAT)
    origin = type_argument(op, "from_type", TensorProto.FLOAT)
    if to not in FLOATS or origin not in FLOATS:
        return None
    return grad.add("Cast", dys, f"{op.input[0]}_grad", to=origin, from_type=to)


@lowering("HalfToFloat")
def half_to_float(op: Emitter, node: Operator) -> ir.Value:
    """Y = X in 32 bits instead of 16."""
    return op.cast(node.tensors(1)[0], ir.DataType.FLOAT)


@lowering("FloatToHalf")
def float_to_half(op: Emitter, node: Operator) -> ir.Value:
    """Y = X in 16 bits; with `clip`, what is too large becomes the largest such number."""
    (X,) = node.tensors(1)
    if node.args.bool("clip", False):
        X = op.Clip(X, -LARGEST_HALF, LARGEST_HALF)
    return op.cast(X, ir.DataType.FLOAT16)


@gradient_operator("HalfToFloat")
def half_to_float_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = FloatToHalf(dY)."""
    return grad.add("FloatToHalf", dys, f"{op.input[0]}_grad")


@gradient_operator("FloatToHalf")
def float_to_half_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = HalfToFloat(dY)."""
    return grad.add("HalfToFloat", dys, f"{op.input[0]}_grad")
