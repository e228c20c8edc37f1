"""Products: fused with what comes before or after them, and with weights that are whole numbers."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.microsoft.activations import activated
from whileback.graph.definitions.table import definition
from whileback.graph.microsoft import MICROSOFT
from whileback.graph.shapes import describe, rank


@definition(MICROSOFT, "FusedMatMul")
@definition(MICROSOFT, "TransposeMatMul")
def fused_mat_mul(op: Builder, node: ir.Node, A: ir.Value, B: ir.Value) -> ir.Value:
    """Y = α·A·B, where the axes of A and B may be in another order."""
    Y = op.MatMul(_turned(op, node, A, "A"), _turned(op, node, B, "B"))
    alpha = node.attributes.get_float("alpha", 1.0)
    return Y if alpha == 1 else op.Mul(Y, alpha)


@definition(MICROSOFT, "FusedGemm")
def fused_gemm(
    op: Builder, node: ir.Node, A: ir.Value, B: ir.Value, C: ir.Value | None = None
) -> ir.Value:
    """Y = f(α·A·B + β·C) for an activation f."""
    names = ("alpha", "beta", "transA", "transB")
    Y = op.emit("Gemm", [A, B, C], _attributes(node, *names))[0]
    keys = ("activation_alpha", "activation_beta", "activation_gamma")
    return activated(op, node, Y, [node.attributes.get_float(key) for key in keys])


@definition(MICROSOFT, "FusedConv")
def fused_conv(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    W: ir.Value,
    B: ir.Value | None = None,
    Z: ir.Value | None = None,
) -> ir.Value:
    """Y = f(X * W + B + Z) for an activation f."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    Y = op.emit("Conv", [X, W, B], _attributes(node, *names))[0]
    Y = Y if Z is None else op.Add(Y, Z)
    return activated(op, node, Y, node.attributes.get_floats("activation_params", []) or [])


@definition(MICROSOFT, "MatMulIntegerToFloat")
def mat_mul_integer_to_float(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    B: ir.Value,
    a_scale: ir.Value,
    b_scale: ir.Value,
    a_zero_point: ir.Value | None = None,
    b_zero_point: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> ir.Value:
    """Y = (A - zₐ)·(B - z_b)·sₐ·s_b + bias."""
    product = op.MatMulInteger(A, B, a_zero_point, b_zero_point)
    Y = op.Mul(op.cast(product, a_scale), op.Mul(a_scale, b_scale))
    return Y if bias is None else op.Add(Y, bias)


@definition(MICROSOFT, "DynamicQuantizeMatMul")
def dynamic_quantize_mat_mul(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    B: ir.Value,
    b_scale: ir.Value,
    b_zero_point: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> ir.Value:
    """Y = Q·(B - z_b)·s·s_b + bias, where A is about s·Q for whole numbers Q."""
    Q, scale, zero_point = op.emit("DynamicQuantizeLinear", [A], outputs=3)
    arguments = (Q, B, scale, b_scale, zero_point, b_zero_point, bias)
    return mat_mul_integer_to_float(op, node, *arguments)


@definition(MICROSOFT, "MatMulNBits")
def mat_mul_n_bits(
    op: Builder,
    node: ir.Node,
    A: ir.Value,
    B: ir.Value,
    scales: ir.Value,
    zero_points: ir.Value | None = None,
    g_idx: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> ir.Value:
    """Y = A·Wᵀ + bias, where W is (B - z)·s, with an s and a z for each block of a row."""
    prepacked = bool(node.attributes.get_int("weight_prepacked", 0))
    if g_idx is not None or prepacked:
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::MatMulNBits) has `g_idx`, or weights in the order "
            "of one device. Export the model without."
        )
    rows, columns = (node.attributes[key].as_int() for key in ("N", "K"))
    bits = node.attributes.get_int("bits", 4)
    blocks = -(-columns // node.attributes["block_size"].as_int())
    units = op.cast(_unpacked(op, B, bits), A)
    if zero_points is None:
        zero = op.constant(2 ** (bits - 1), A.dtype)
    elif zero_points.dtype == ir.DataType.UINT8:
        zero = op.Slice(op.cast(_unpacked(op, zero_points, bits), A), [0], [blocks], [1])
    else:
        zero = op.Reshape(zero_points, [rows, blocks])
    zero = zero if zero_points is None else op.Unsqueeze(zero, [2])
    weights = op.Mul(op.Sub(units, zero), op.Reshape(scales, [rows, blocks, 1]))
    W = op.Slice(op.Reshape(weights, [rows, -1]), [0], [columns], [1])
    Y = op.MatMul(A, op.Transpose(W, perm=[1, 0]))
    return Y if bias is None else op.Add(Y, bias)


def _unpacked(op: Builder, packed: ir.Value, bits: int) -> ir.Value:
    """Return the numbers of a few bits in bytes, the lowest first, along the last axis."""
    if bits == 8:
        return packed
    mask = op.constant(2**bits - 1, ir.DataType.UINT8)
    parts = [
        op.BitwiseAnd(
            op.BitShift(packed, op.constant(shift, ir.DataType.UINT8), direction="RIGHT"), mask
        )
        for shift in range(0, 8, bits)
    ]
    count = rank(packed) or 0
    stacked = op.Concat(*(op.Unsqueeze(part, [count]) for part in parts), axis=count)
    return op.Reshape(stacked, [0] * (count - 1) + [-1])


def _turned(op: Builder, node: ir.Node, X: ir.Value, side: str) -> ir.Value:
    """Return an operand with its first axis moved behind the others, but for the last; and that
    one and the last one swapped; as the node says.
    """
    batch = node.attributes.get_int(f"transBatch{side}", 0)
    last = node.attributes.get_int(f"trans{side}", 0)
    count = rank(X)
    if not (batch or last) or count == 1:
        return X
    if count is None:
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::{node.op_type}) transposes '{X.name}' "
            f"({describe(X)}), whose rank is not known. Declare its shape; dimensions may be "
            "symbols."
        )
    axes = list(range(count))
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if last:
        axes[-2:] = reversed(axes[-2:])
    return op.Transpose(X, perm=axes)


def _attributes(node: ir.Node, *names: str) -> dict[str, Any]:
    return {name: node.attributes[name].value for name in names if name in node.attributes}
