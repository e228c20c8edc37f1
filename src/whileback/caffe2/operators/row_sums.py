"""Sums of rows, and over what rows hold: a row is what a tensor holds along its first axis."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.rows import along_rows
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("ReduceTailSum")
def reduce_tail_sum(op: Emitter, node: Operator) -> ir.Value:
    """Y = the sum of each row of X."""
    (X,) = node.tensors(1)
    axes = list(range(1, known_rank(node, X)))
    return op.ReduceSum(X, axes, keepdims=0) if axes else op.Identity(X)


@gradient_operator("ReduceTailSum")
def reduce_tail_sum_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY for each element of a row: ones times dY."""
    ones = grad.add("ConstantFill", op.input, f"{op.input[0]}_ones", value=1.0)
    return [grad.add("RowMul", [ones, dys[0]], f"{op.input[0]}_grad")]


@lowering("ReduceFrontWeightedSum")
def weighted_sum(op: Emitter, node: Operator) -> ir.Value:
    """Y = Σ wᵢ·Xᵢ over the rows."""
    X, w = node.tensors(2)
    return op.ReduceSum(op.Mul(X, along_rows(op, w, X)), [0], keepdims=0)


@lowering("ReduceFrontWeightedSumGradient")
def weighted_sum_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dXᵢ = wᵢ·dY, in the shape that the third input tells."""
    w, dY, shape = node.tensors(3)
    dY = op.Expand(dY, op.cast(shape, ir.DataType.INT64))
    return op.Mul(dY, along_rows(op, w, dY))


@gradient_operator("ReduceFrontWeightedSum")
def weighted_sum_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dXᵢ = wᵢ·dY, dwᵢ = the sum of Xᵢ·dY."""
    X, w = op.input
    shape = grad.add("Shape", [X], f"{X}_shape")
    (dX,) = grad.emit("ReduceFrontWeightedSumGradient", [w, dys[0], shape], of=[X], like=op)
    products = grad.add("Mul", [X, dys[0]], f"{w}_products")
    return [dX, grad.add("ReduceTailSum", [products], f"{w}_grad")]
