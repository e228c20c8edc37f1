"""Gradients of matrix products."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.shapes import rank

Pair = tuple[ir.Value | None, ir.Value | None]


@rule("MatMul")
def matmul(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Pair:
    """Y = A·B, so dA = dY·Bᵀ and dB = Aᵀ·dY, each summed back to its own shape.

    A vector is a matrix of one row (A) or of one column (B).
    """
    A, B = required(node, 0), required(node, 1)
    if rank(A) is None or rank(B) is None:
        return _matmul_of_unknown_ranks(op, A, B, dY)
    dA = _left_factor(op, A, B, dY) if A in op.active else None
    dB = _right_factor(op, A, B, dY) if B in op.active else None
    return dA, dB


def _left_factor(op: GradientBuilder, A: ir.Value, B: ir.Value, dY: ir.Value) -> ir.Value:
    """dA = dY·Bᵀ."""
    ranks = (rank(A), rank(B))
    if ranks == (1, 1):
        return op.Mul(dY, B)
    if ranks == (1, 2):
        return op.MatMul(B, dY)
    if ranks == (2, 1):
        return op.Gemm(op.Unsqueeze(dY, [0]), op.Unsqueeze(B, [0]), transA=1)
    if rank(B) == 1:
        return op.Mul(op.Unsqueeze(dY, [-1]), B)
    rows = op.Unsqueeze(dY, [-2]) if rank(A) == 1 else dY
    return op.unbroadcast(op.MatMul(rows, _transpose(op, B)), A)


def _right_factor(op: GradientBuilder, A: ir.Value, B: ir.Value, dY: ir.Value) -> ir.Value:
    """dB = Aᵀ·dY; where B is one matrix and A a stack of them, their sum is one product."""
    ranks = (rank(A), rank(B))
    if ranks == (1, 1):
        return op.Mul(dY, A)
    if ranks == (1, 2):
        return op.Gemm(op.Unsqueeze(A, [0]), op.Unsqueeze(dY, [0]), transA=1)
    if rank(B) == 1:
        return op.MatMul(dY if rank(A) == 2 else op.Reshape(dY, [-1]), _flatten(op, A))
    if rank(B) == 2:
        return op.Gemm(_flatten(op, A), _flatten(op, dY), transA=1)
    if rank(A) == 1:
        return op.unbroadcast(op.Mul(op.Unsqueeze(A, [1]), op.Unsqueeze(dY, [-2])), B)
    return op.unbroadcast(op.MatMul(_transpose(op, A), dY), B)


def _transpose(op: GradientBuilder, value: ir.Value) -> ir.Value:
    """Exchange the last two axes."""
    order = list(range(rank(value) or 0))
    order[-2:] = reversed(order[-2:])
    return op.Transpose(value, perm=order)


def _flatten(op: GradientBuilder, value: ir.Value) -> ir.Value:
    """Make all axes but the last one into one."""
    return value if rank(value) == 2 else op.Flatten(value, axis=-1)


def _matmul_of_unknown_ranks(
    op: GradientBuilder, A: ir.Value, B: ir.Value, dY: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """As above, after the axes that vectors lack have been added at run time."""
    a_vector, b_vector = (
        op.cast(op.Equal(op.Shape(op.Shape(value)), [1]), ir.DataType.INT64) for value in (A, B)
    )
    row, column = op.Expand(1, a_vector), op.Expand(1, b_vector)
    rows = op.Reshape(A, op.Concat(row, op.Shape(A), axis=0), allowzero=1)
    columns = op.Reshape(B, op.Concat(op.Shape(B), column, axis=0), allowzero=1)
    shape = op.Shape(dY)
    stack = op.Add(op.Sub(op.Shape(shape), [1]), b_vector)
    before, after = op.Slice(shape, [0], stack), op.Slice(shape, stack, op.Shape(shape))
    product = op.Reshape(dY, op.Concat(before, row, after, column, axis=0), allowzero=1)
    flip = "...ij->...ji"
    dA = op.unbroadcast(op.MatMul(product, op.Einsum(columns, equation=flip)), rows)
    dB = op.unbroadcast(op.MatMul(op.Einsum(rows, equation=flip), product), columns)
    return op.reshape(dA, A), op.reshape(dB, B)


@rule("Gemm")
def gemm(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> tuple[ir.Value | None, ...]:
    """Y = α·A·B + β·C, so dA = α·dY·Bᵀ, dB = α·Aᵀ·dY and dC = β·dY, summed back to its shape."""
    A, B, C = required(node, 0), required(node, 1), optional(node, 2)
    alpha = node.attributes.get_float("alpha", 1.0)
    beta = node.attributes.get_float("beta", 1.0)
    flip_a = node.attributes.get_int("transA", 0)
    flip_b = node.attributes.get_int("transB", 0)

    def product(left: ir.Value, right: ir.Value, left_flip: int, right_flip: int) -> ir.Value:
        attributes = {"transA": left_flip or None, "transB": right_flip or None}
        return op.Gemm(left, right, alpha=None if alpha == 1 else alpha, **attributes)

    dA = dB = dC = None
    if A in op.active:
        dA = product(B, dY, flip_b, 1) if flip_a else product(dY, B, 0, 1 - flip_b)
    if B in op.active:
        dB = product(dY, A, 1, flip_a) if flip_b else product(A, dY, 1 - flip_a, 0)
    if C is not None and C in op.active:
        dC = op.unbroadcast(dY if beta == 1 else op.Mul(dY, beta), C)
    return dA, dB, dC
