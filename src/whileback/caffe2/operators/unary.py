"""Elementary functions of each element of one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef, TensorProto

LARGEST = 3.4028234663852886e38  # of float32

replayed_gradient(
    "X0 dY0", "X0", "Abs", "Acos", "Asin", "Atan", "Cos", "Erf", "Logit", "Sin", "Tan"
)
replayed_gradient("dY0 X0", "X0", "Cosh", "Sinh")
replayed_gradient("Y0 dY0", "X0", "Clip", "Reciprocal")
replayed_gradient("dY0 Y0", "X0", "Cbrt", "Rsqrt")
not_differentiable("it is constant between its jumps", "Ceil", "Floor", "Sign", "StumpFunc")
not_differentiable("it splits places, not values", "StumpFuncIndex")
not_differentiable("it is of integers", "Mod", "IsMemberOf")
not_differentiable("a truth value does not vary", "IsNaN")


@lowering(
    *("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log"),
    *("Reciprocal", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
)
def function(op: Emitter, node: Operator) -> ir.Value:
    """Y = f(X), where ONNX has the function under the same name."""
    return op.emit(node.type, node.tensors(1))[0]


@gradient_operator("Exp")
def exp_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = dY·Y."""
    return grad.add("Mul", [op.output[0], dys[0]], f"{op.input[0]}_grad")


@gradient_operator("Log")
def log_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = dY/X."""
    return grad.add("Div", [dys[0], op.input[0]], f"{op.input[0]}_grad")


@lowering("Sqr")
def sqr(op: Emitter, node: Operator) -> ir.Value:
    """Y = X²."""
    (X,) = node.tensors(1)
    return op.Mul(X, X)


@gradient_operator("Sqr")
def sqr_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = 2·X·dY."""
    half = grad.add("Mul", [dys[0], op.input[0]], f"{op.output[0]}_half")
    return grad.add("Scale", [half], f"{op.input[0]}_grad", scale=2.0)


@lowering("Cube")
def cube(op: Emitter, node: Operator) -> ir.Value:
    """Y = X³."""
    (X,) = node.tensors(1)
    return op.Mul(op.Mul(X, X), X)


@lowering("CubeGradient")
def cube_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = 3·dY·X²."""
    dY, X = node.tensors(2)
    return op.Mul(op.Mul(dY, op.constant(3, dY.dtype)), op.Mul(X, X))


@gradient_operator("Cube")
def cube_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = CubeGradient(dY, X)."""
    return grad.emit("CubeGradient", [dys[0], *op.input], of=op.input, like=op)


@gradient_operator("Sqrt")
def sqrt_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = dY/(2·Y)."""
    half = grad.add("Scale", dys, f"{op.output[0]}_half", scale=0.5)
    return grad.add("Div", [half, op.output[0]], f"{op.input[0]}_grad")


@lowering("Rsqrt")
def rsqrt(op: Emitter, node: Operator) -> ir.Value:
    """Y = 1/√X."""
    return op.Reciprocal(op.Sqrt(*node.tensors(1)))


@lowering("RsqrtGradient")
def rsqrt_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = -dY·Y³/2."""
    dY, Y = node.tensors(2)
    return op.Mul(op.Mul(dY, -0.5), op.Mul(op.Mul(Y, Y), Y))


@lowering("Cbrt")
def cbrt(op: Emitter, node: Operator) -> ir.Value:
    """Y = ∛X."""
    (X,) = node.tensors(1)
    return op.Mul(op.Sign(X), op.Pow(op.Abs(X), 1 / 3))


@lowering("CbrtGradient")
def cbrt_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY/(3·Y²)."""
    dY, Y = node.tensors(2)
    return op.Div(dY, op.Mul(op.Mul(Y, Y), 3.0))


@lowering("ReciprocalGradient")
def reciprocal_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = -dY·Y²."""
    Y, dY = node.tensors(2)
    return op.Neg(op.Mul(dY, op.Mul(Y, Y)))


@lowering("Logit")
def logit(op: Emitter, node: Operator) -> ir.Value:
    """Y = log(X/(1 - X)), with X kept from 0 and 1 by eps."""
    (X,) = node.tensors(1)
    eps = node.args.float("eps", 1e-6)
    X = op.Clip(X, op.constant(eps, X.dtype), op.constant(1 - eps, X.dtype))
    return op.Log(op.Div(X, op.Sub(1.0, X)))


@lowering("Clip")
def clip(op: Emitter, node: Operator) -> ir.Value:
    """Y = min(max(X, min), max)."""
    (X,) = node.tensors(1)
    return op.Clip(X, *(op.constant(limit, X.dtype) for limit in _limits(node)))


@lowering("EnsureClipped")
def ensure_clipped(op: Emitter, node: Operator) -> ir.Value:
    """Y = min(max(X, min), max), for all rows of X."""
    if len(node.inputs) > 1:
        raise UnsupportedError("it clips some rows alone. Use Clip, for all of them.")
    return clip(op, node)


@lowering("ClipGradient")
def clip_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where min < Y < max, else 0."""
    Y, dY = node.tensors(2)
    low, high = _limits(node)
    return op.Where(op.And(op.Greater(Y, low), op.Less(Y, high)), dY, 0.0)


def _limits(node: Operator) -> tuple[float, float]:
    return node.args.float("min", -LARGEST), node.args.float("max", LARGEST)


@lowering("Mod")
def mod(op: Emitter, node: Operator) -> ir.Value:
    """Y = X mod divisor, with the sign of X, or of the divisor if `sign_follow_divisor`."""
    (X,) = node.tensors(1)
    divisor = node.args.int("divisor", 0)
    if divisor == 0:
        raise NetDefError(f"{label(node.proto)} divides by 0. Correct its argument 'divisor'.")
    follow = node.args.bool("sign_follow_divisor", False)
    return op.Mod(X, op.constant(divisor, X.dtype), fmod=0 if follow else 1)


@lowering("IsMemberOf")
def is_member_of(op: Emitter, node: Operator) -> ir.Value:
    """Y tells whether X is one of the values in `value`."""
    (X,) = node.tensors(1)
    if X.dtype == ir.DataType.STRING:
        found = op.Equal(op.Unsqueeze(X, [-1]), np.array(node.args.strings("value"), object))
    else:
        members = op.constant(node.args.ints("value"), ir.DataType.INT64)
        found = op.Equal(op.Unsqueeze(op.cast(X, ir.DataType.INT64), [-1]), members)
    count = op.ReduceSum(op.cast(found, ir.DataType.INT32), [-1], keepdims=0)
    return op.cast(count, ir.DataType.BOOL)


@lowering("IsNaN")
def is_nan(op: Emitter, node: Operator) -> ir.Value:
    """Y = 1 where X is NaN, else 0, in bytes."""
    return op.cast(op.IsNaN(*node.tensors(1)), ir.DataType.UINT8)


@lowering("ReplaceNaN")
def replace_nan(op: Emitter, node: Operator) -> ir.Value:
    """Y = X, and `value` where X is NaN."""
    (X,) = node.tensors(1)
    return op.Where(op.IsNaN(X), node.args.float("value", 0.0), X)


@gradient_operator("ReplaceNaN")
def replace_nan_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = dY, and 0 where X is NaN."""
    X = op.input[0]
    byte = grad.add("IsNaN", [X], f"{X}_byte")
    mask = grad.add("Cast", [byte], f"{X}_mask", to=TensorProto.BOOL)
    zero = grad.zeros_like(X)
    return grad.add("Where", [mask, zero, dys[0]], f"{X}_grad")


@lowering("StumpFunc")
def stump(op: Emitter, node: Operator) -> ir.Value:
    """Y = high_value where X > threshold, else low_value."""
    (X,) = node.tensors(1)
    low, high = node.args.float("low_value", 0.0), node.args.float("high_value", 0.0)
    above = op.Greater(X, node.args.float("threshold", 0.0))
    return op.Where(above, op.constant(high, X.dtype), op.constant(low, X.dtype))


@lowering("StumpFuncIndex")
def stump_index(op: Emitter, node: Operator) -> list[ir.Value]:
    """The places where X ≤ threshold, and those where it is greater."""
    (X,) = node.tensors(1)
    above = op.Greater(op.Reshape(X, [-1]), node.args.float("threshold", 0.0))
    return [op.Squeeze(op.NonZero(mask), [0]) for mask in (op.Not(above), above)]
