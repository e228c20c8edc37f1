"""Gradients of ONNX Runtime's quantised operators, whose inputs and outputs are whole numbers.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.nn.quantized import filtered
from whileback.gradient.rules.quantization.scaling import in_units, out_of_units
from whileback.gradient.straight_through import unrounded
from whileback.graph.builder import Builder
from whileback.graph.shapes import rank

Maybe = ir.Value | None
Call = Callable[[Builder, ir.Node, ir.Value], ir.Value]


@rule("com.microsoft::QLinearAdd", "com.microsoft::QLinearMul", rounds=True)
@unrounded
def q_linear_add(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    a_scale: ir.Value,
    a_zero_point: Maybe,
    B: ir.Value,
    b_scale: ir.Value,
    b_zero_point: Maybe,
    c_scale: ir.Value,
    c_zero_point: Maybe = None,
) -> ir.Value:
    """C = clip((sₐ(A - zₐ) + s_b(B - z_b))/s + z), or their product."""
    left = out_of_units(op, A, a_scale, a_zero_point)
    right = out_of_units(op, B, b_scale, b_zero_point)
    total = op.Add(left, right) if node.op_type == "QLinearAdd" else op.Mul(left, right)
    return _rounded(op, node, total, c_scale, c_zero_point)


@rule(
    *(
        f"com.microsoft::QLinear{op_type}"
        for op_type in (
            "AveragePool",
            "GlobalAveragePool",
            "LeakyRelu",
            "Sigmoid",
            "Softmax",
        )
    ),
    rounds=True,
)
@unrounded
def q_linear_function(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    x_scale: ir.Value,
    x_zero_point: Maybe,
    y_scale: ir.Value,
    y_zero_point: Maybe = None,
) -> ir.Value:
    """Y = clip(f(sₓ(X - zₓ))/s + z) for the function f that the operator is called after."""
    value = out_of_units(op, X, x_scale, x_zero_point)
    value = _FUNCTIONS.get(node.op_type, _called)(op, node, value)
    return _rounded(op, node, value, y_scale, y_zero_point)


@rule("com.microsoft::QLinearConv", rounds=True)
@unrounded
def q_linear_conv(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    x_scale: ir.Value,
    x_zero_point: ir.Value,
    *others: Maybe,
) -> ir.Value:
    """ONNX's own, but that the channels of X and Y may be the last axis."""
    data = out_of_units(op, X, x_scale, x_zero_point)
    y_scale, y_zero_point = required(node, 6), required(node, 7)
    return _rounded(op, node, _channels_last(op, node, data, filtered), y_scale, y_zero_point)


@rule("com.microsoft::QLinearConcat", rounds=True)
@unrounded
def q_linear_concat(
    op: Builder, node: ir.Node, y_scale: ir.Value, y_zero_point: ir.Value, *parts: ir.Value
) -> ir.Value:
    """Y = clip(x/s + z), where x are the parts sᵢ(Xᵢ - zᵢ) one behind another."""
    values = [
        out_of_units(op, X, scale, zero_point)
        for X, scale, zero_point in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]
    whole = op.Concat(*values, axis=node.attributes["axis"].as_int())
    return _rounded(op, node, whole, y_scale, y_zero_point)


@rule("com.microsoft::QLinearWhere", rounds=True)
@unrounded
def q_linear_where(
    op: Builder,
    node: ir.Node,
    condition: ir.Value,
    X: ir.Value,
    x_scale: ir.Value,
    x_zero_point: ir.Value,
    Y: ir.Value,
    y_scale: ir.Value,
    y_zero_point: ir.Value,
    z_scale: ir.Value,
    z_zero_point: ir.Value,
) -> ir.Value:
    """Z = clip(v/s + z), where v is sₓ(X - zₓ) where the condition holds, else s_y(Y - z_y)."""
    some = out_of_units(op, X, x_scale, x_zero_point)
    others = out_of_units(op, Y, y_scale, y_zero_point)
    return _rounded(op, node, op.Where(condition, some, others), z_scale, z_zero_point)


@rule("com.microsoft::QGemm", rounds=True)
@unrounded
def q_gemm(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    a_scale: ir.Value,
    a_zero_point: ir.Value,
    B: ir.Value,
    b_scale: ir.Value,
    b_zero_point: ir.Value,
    C: Maybe = None,
    y_scale: Maybe = None,
    y_zero_point: Maybe = None,
) -> ir.Value:
    """Y = α·sₐ(A - zₐ)·s_b(B - z_b) + α·sₐ·s_b·C, clipped to what y/s + z can be if there is an s.

    The bias C are whole numbers; B has one scale, or one for each column of the product.
    """
    transposed = {key: node.attributes.get_int(key, 0) for key in ("transA", "transB")}
    axis = 0 if transposed["transB"] else 1
    right = out_of_units(op, B, b_scale, b_zero_point, axis)
    left = out_of_units(op, A, a_scale, a_zero_point)
    alpha = node.attributes.get_float("alpha", 1.0)
    Y = op.Gemm(left, right, alpha=alpha, **transposed)
    if C is not None:
        Y = op.Add(Y, op.Mul(out_of_units(op, C, op.Mul(a_scale, b_scale), None), alpha))
    return Y if y_scale is None else _rounded(op, node, Y, y_scale, y_zero_point)


def _rounded(
    op: Builder, node: ir.Node, value: ir.Value, scale: ir.Value, zero_point: Maybe
) -> ir.Value:
    dtype = node.outputs[0].dtype if zero_point is None else zero_point.dtype
    return in_units(op, value, scale, zero_point, dtype or ir.DataType.UINT8)


def _called(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Apply the operator that a quantised one is called after."""
    attributes = {a.name: a.value for a in node.attributes.values() if a.name != "channels_last"}
    return op.emit(node.op_type.removeprefix("QLinear"), [X], attributes)[0]


def _channels_last(op: Builder, node: ir.Node, X: ir.Value, call: Call) -> ir.Value:
    """Apply what wants the channels as axis 1 to X, whose last axis they may be."""
    if not node.attributes.get_int("channels_last", 0):
        return call(op, node, X)
    count = rank(X)
    if count is None:
        raise UnsupportedError(
            f"Node '{node.name}' ({node.op_type}) has the channels as the last axis of "
            f"'{required(node).name}', whose rank is not known. Declare its shape; dimensions may "
            "be symbols."
        )
    axes = list(range(count))
    result = call(op, node, op.Transpose(X, perm=[0, axes[-1], *axes[1:-1]]))
    return op.Transpose(result, perm=[0, *axes[2:], 1])


def _pooled(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    return _channels_last(op, node, X, _called)


def _softmax(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Before opset 13 all axes from `axis` on were one."""
    axis = node.attributes.get_int("axis", -1)
    if node.attributes.get_int("opset", 13) >= 13:
        return op.Softmax(X, axis=axis)
    return op.reshape(op.Softmax(op.Flatten(X, axis=axis), axis=-1), X)


_FUNCTIONS = {
    "QLinearAveragePool": _pooled,
    "QLinearGlobalAveragePool": _pooled,
    "QLinearSoftmax": _softmax,
}
