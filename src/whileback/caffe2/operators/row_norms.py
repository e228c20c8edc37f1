"""Tensors divided by their length along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.operators.shapes import axis_argument
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

# The squares of the least length that is divided by, and the least sum of absolute values.
LEAST_SQUARE = 1e-24
LEAST_SUM = 1e-37


@lowering("Normalize")
def normalize(op: Emitter, node: Operator) -> ir.Value:
    """Y = X/‖X‖₂ along an axis, the last one by default."""
    (X,) = node.tensors(1)
    squares = op.ReduceSum(op.Mul(X, X), [axis_argument(node, X, default=-1)])
    return op.Div(X, op.Sqrt(op.Max(squares, LEAST_SQUARE)))


replayed_gradient("X0 dY0", "X0", "Normalize")


@lowering("NormalizeL1")
def normalize_l1(op: Emitter, node: Operator) -> ir.Value:
    """Y = X/Σ|X| along an axis, the last one by default; 0 where all of X is."""
    (X,) = node.tensors(1)
    sums = op.ReduceL1(X, [axis_argument(node, X, default=-1)])
    return op.Div(X, op.Max(sums, LEAST_SUM))


@gradient_operator("NormalizeL1")
def normalize_l1_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = (dY - sign(X)·Σ dY·Y)/Σ|X|."""
    X, Y, axes = op.input[0], op.output[0], [Arguments(op).int("axis", -1)]
    products = grad.add("Mul", [dys[0], Y], f"{Y}_products")
    along = grad.add("ReduceSum", [products], f"{Y}_along", axes=axes, keepdims=1)
    signs = grad.add("Mul", [grad.add("Sign", [X], f"{X}_sign"), along], f"{X}_signs")
    norm = grad.add("ReduceL1", [X], f"{X}_norm", axes=axes, keepdims=1)
    difference = grad.add("Sub", [dys[0], signs], f"{X}_difference")
    return grad.add("Div", [difference, norm], f"{X}_grad")
