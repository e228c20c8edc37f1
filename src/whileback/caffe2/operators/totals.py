"""Sums and means over all elements of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

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
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import size

__all__ = ["mean"]


def mean(op: Emitter, X: ir.Value) -> ir.Value:
    """Return the mean of all elements, 0 of none."""
    if size(X):
        return op.ReduceMean(X, keepdims=0)
    count = op.cast(op.Max(op.Size(X), 1), X)
    return op.Div(op.ReduceSum(X, keepdims=0), count)


def _total(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    """Return the sum of all elements, or their mean with `average`."""
    return mean(op, X) if node.args.bool("average", False) else op.ReduceSum(X, keepdims=0)


@lowering("AveragedLoss")
def averaged_loss(op: Emitter, node: Operator) -> ir.Value:
    """The mean of X."""
    return mean(op, *node.tensors(1))


@lowering("SumElements", "SumElementsInt")
def sum_elements(op: Emitter, node: Operator) -> ir.Value:
    """Σ x over all elements, or their mean."""
    return _total(op, node, *node.tensors(1))


@lowering("SumSqrElements")
def sum_squares(op: Emitter, node: Operator) -> ir.Value:
    """Σ x² over all elements, or their mean."""
    (X,) = node.tensors(1)
    return _total(op, node, op.Mul(X, X))


@gradient_operator("SumSqrElements")
def sum_squares_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = 2·X·dY, which LpNorm has for p = 2."""
    average = Arguments(op).int("average", 0)
    dY = grad.add("ExpandDims", [dys[0]], f"{dys[0]}_vector", dims=[0])
    return grad.add(
        "LpNormGradient", [op.input[0], dY], f"{op.input[0]}_grad", p=2, average=average
    )


@lowering("LpNorm")
def lp_norm(op: Emitter, node: Operator) -> ir.Value:
    """Σ|x| for p = 1, Σ x² for p = 2, over all elements, or their mean."""
    (X,) = node.tensors(1)
    p = node.args.int("p", 2)
    if p not in (1, 2):
        raise NetDefError(f"{label(node.proto)} has p = {p}; there are 1 and 2.")
    powers = op.Abs(X) if p == 1 else op.Mul(X, X)
    return op.Unsqueeze(_total(op, node, powers), [0])


replayed_gradient("X0 dY0", "X0", "AveragedLoss", "LpNorm", "SumElements")
not_differentiable("It adds integers.", "SumElementsInt")
