"""Comparisons, logic, and the choice between two tensors."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.broadcasting import operands
from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

_COMPARISONS = {
    "EQ": "Equal",
    "NE": "Equal",
    "LT": "Less",
    "LE": "LessOrEqual",
    "GT": "Greater",
    "GE": "GreaterOrEqual",
}
_LOGIC = {
    "And": "And",
    "Or": "Or",
    "Xor": "Xor",
    "BitwiseAnd": "And",
    "BitwiseOr": "Or",
    "BitwiseXor": "Xor",
}

not_differentiable("a truth value does not vary with its inputs", *_COMPARISONS, "Not")
not_differentiable("logic has no gradient", *_LOGIC)


@lowering(*_COMPARISONS)
def comparison(op: Emitter, node: Operator) -> ir.Value:
    """Whether A = B, A ≠ B, A < B, A ≤ B, A > B or A ≥ B; False is less than True."""
    A, B = operands(op, node)
    if A.dtype == ir.DataType.BOOL and node.type not in ("EQ", "NE"):
        A, B = op.cast(A, ir.DataType.INT32), op.cast(B, ir.DataType.INT32)
    found = op.emit(_COMPARISONS[node.type], [A, B])[0]
    return op.Not(found) if node.type == "NE" else found


@lowering(*_LOGIC)
def logic(op: Emitter, node: Operator) -> ir.Value:
    """A and B, A or B, either A or B; bit by bit for integers."""
    A, B = operands(op, node)
    bitwise = "" if A.dtype == ir.DataType.BOOL else "Bitwise"
    return op.emit(bitwise + _LOGIC[node.type], [A, B])[0]


@lowering("Not")
def not_(op: Emitter, node: Operator) -> ir.Value:
    """Y = not X."""
    return op.Not(*node.tensors(1))


@lowering("Where", "Conditional")
def where(op: Emitter, node: Operator) -> ir.Value:
    """Z = X where C is true, else Y; C holds one value for each element, or for each row."""
    C, X, Y = node.tensors(3)
    if node.type == "Conditional" or node.args.bool("broadcast_on_rows", False):
        C = op.Reshape(C, [-1] + [1] * (known_rank(node, X) - 1))
    if X.dtype == ir.DataType.BOOL:  # for which ONNX Runtime 1.32 has no Where
        return op.Or(op.And(C, X), op.And(op.Not(C), Y))
    return op.Where(C, X, Y)


@gradient_operator("Where", "Conditional")
def where_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = dZ where C is true, dY = dZ where it is not, else 0."""
    C, X, Y = op.input
    zero = grad.zeros_like(dys[0])
    dX = grad.emit(op.type, [C, dys[0], zero], of=[X], like=op)
    dY = grad.emit(op.type, [C, zero, dys[0]], of=[Y], like=op)
    return [None, *dX, *dY]
