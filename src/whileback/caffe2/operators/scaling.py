"""Multiples of a tensor, or of each of its rows."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


@lowering("Negative")
def negative(op: Emitter, node: Operator) -> ir.Value:
    """Y = -X."""
    return op.Neg(*node.tensors(1))


@lowering("Scale", "ScaleBlobs")
def scale(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = scale·X, for each X of ScaleBlobs."""
    factor = node.args.float("scale", 1.0)
    tensors = node.tensors(len(node.inputs))
    return tensors if factor == 1 else [op.Mul(X, factor) for X in tensors]


@gradient_operator("Negative", "Scale")
def linear_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """The operator itself, applied to dY: it is linear, and its own transpose."""
    return grad.emit(op.type, dys, of=op.input, like=op)


@gradient_operator("ScaleBlobs")
def scale_blobs_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> list[str | None]:
    """dX = scale·dY, for each of them."""
    return [
        dY and grad.emit("Scale", [dY], of=[X], like=op)[0]
        for X, dY in zip(op.input, dys, strict=True)
    ]


@lowering("RowMul")
def row_mul(op: Emitter, node: Operator) -> ir.Value:
    """Y = w·X, a factor for each row."""
    X, w = node.tensors(2)
    return op.Mul(X, _for_rows(op, node, X, w))


@gradient_operator("RowMul")
def row_mul_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = w·dY, and dw = Σ X·dY over each row."""
    X, w = op.input
    (dX,) = grad.emit("RowMul", [dys[0], w], of=[X], like=op)
    product = grad.add("Mul", [dys[0], X], f"{w}_product")
    return [dX, grad.add("ReduceTailSum", [product], f"{w}_grad")]


@lowering("SquareRootDivide")
def square_root_divide(op: Emitter, node: Operator) -> ir.Value:
    """Y = X/√s, with an s for each row, and Y = X where s = 0."""
    X, s = node.tensors(2)
    s = op.cast(s, X)
    divisor = op.Sqrt(op.Where(op.Greater(s, 0.0), s, 1.0))
    return op.Div(X, _for_rows(op, node, X, divisor))


@gradient_operator("SquareRootDivide")
def square_root_divide_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str]
) -> list[str | None]:
    """dX = dY/√s; s is a count, and has none."""
    X, s = op.input
    return [grad.emit("SquareRootDivide", [dys[0], s], of=[X], like=op)[0], None]


def _for_rows(op: Emitter, node: Operator, X: ir.Value, factors: ir.Value) -> ir.Value:
    """Return one factor for each row in a shape that is broadcast so."""
    return op.Reshape(factors, [-1] + [1] * (known_rank(node, X) - 1))


@lowering("ClipTensorByScaling")
def clip_by_scaling(op: Emitter, node: Operator) -> ir.Value:
    """Y = X·min(1, threshold/val), where a third input multiplies the threshold."""
    X, val = node.tensors(2)
    limit: ir.Value | float = node.args.float("threshold")
    given = node.optional(2)
    if given is not None:
        limit = op.Mul(given, limit)
    ratio = op.Where(op.Greater(val, limit), op.Div(limit, val), 1.0)
    return op.Mul(X, op.Reshape(ratio, []))
