"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_argument, known_rank, matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import rank


@lowering("FC", "FCTransposed")
def fc(op: Emitter, node: Operator) -> ir.Value:
    """Y = X·Wᵀ + b with X and W as matrices, X·W + b for FCTransposed; Y has X's leading axes."""
    X, W, b = node.tensors(3)
    Y = _fc_product(op, node, X, W, b)
    axis = axis_argument(node, X)
    if axis == 1:
        return Y
    leading = op.Shape(X, start=0, end=axis)
    return op.Reshape(Y, op.Concat(leading, op.dim(b, 0), axis=0), allowzero=1)


def _fc_product(op: Emitter, node: Operator, X: ir.Value, W: ir.Value, *b: ir.Value) -> ir.Value:
    """Return X·Wᵀ + b as a matrix."""
    X = matrix(op, X, axis_argument(node, X))
    W = matrix(op, W, axis_argument(node, W, "axis_w"))
    return op.Gemm(X, W, *b, transB=0 if node.type.startswith("FCTransposed") else 1)


@lowering("FCGradient", "FCTransposedGradient")
def fc_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dW = dYᵀ·X, db = Σ dY over its rows, dX = dY·W."""
    X, W, dY = node.tensors(3)
    dY = matrix(op, dY, -1)
    db = op.ReduceSum(dY, [0], keepdims=0)
    dX, dW = op.pullback(lambda op, X, W: _fc_product(op, node, X, W), [X, W], [dY])
    return [dW, db, dX]


@gradient_operator("FC", "FCTransposed")
def fc_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dW, db, dX = FCGradient(X, W, dY)."""
    X, W, b = op.input
    dW, db, dX = grad.emit(f"{op.type}Gradient", [X, W, dys[0]], of=[W, b, X], like=op)
    return [dX, dW, db]


@lowering("MatMul")
def matmul(op: Emitter, node: Operator) -> ir.Value:
    """Y = A·B for matrices A and B, each transposed on demand; a third input has Y's shape."""
    A, B = (
        matrix(op, value, axis_argument(node, value, axis))
        for value, axis in zip(node.tensors(2), ("axis_a", "axis_b"), strict=True)
    )
    trans_a, trans_b = node.args.int("trans_a", 0), node.args.int("trans_b", 0)
    plain = not trans_a and not trans_b
    Y = op.MatMul(A, B) if plain else op.Gemm(A, B, transA=trans_a, transB=trans_b)
    like = node.optional(2)
    return Y if like is None else op.reshape(Y, like)


@gradient_operator("MatMul")
def matmul_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dA = dY·Bᵀ, dB = Aᵀ·dY, in A's and B's shapes; what is transposed gets dAᵀ, dBᵀ."""
    A, B = op.input
    args = Arguments(op)
    trans_a, trans_b = args.int("trans_a", 0), args.int("trans_b", 0)
    axis_a, axis_b = args.int("axis_a", 1), args.int("axis_b", 1)

    def product(left: str, right: str, like: str, **args: int) -> str:
        return grad.add("MatMul", [left, right, like], f"{like}_grad", **args)

    if trans_a:
        dA = product(B, dys[0], A, trans_a=trans_b, trans_b=1, axis_a=axis_b)
    else:
        dA = product(dys[0], B, A, trans_b=1 - trans_b, axis_b=axis_b)
    if trans_b:
        dB = product(dys[0], A, B, trans_a=1, trans_b=trans_a, axis_b=axis_a)
    else:
        dB = product(A, dys[0], B, trans_a=1 - trans_a, axis_a=axis_a)
    return [dA, dB]


@lowering("BatchMatMul")
def batch_matmul(op: Emitter, node: Operator) -> ir.Value:
    """Y = A·B for stacks of matrices; a vector is a row (A) or a column (B), never transposed."""
    A, B = (
        _transposed(op, node, value) if node.args.bool(flag, False) else value
        for value, flag in zip(node.tensors(2), ("trans_a", "trans_b"), strict=True)
    )
    # Vectors become matrices here: ONNX Runtime 1.32 is wrong on a transposed matrix by a vector.
    row, column = rank(A) == 1, rank(B) == 1
    A = op.Unsqueeze(A, [0]) if row else A
    B = op.Unsqueeze(B, [1]) if column else B
    Y = op.MatMul(A, B)
    if column:
        return op.Squeeze(Y, [-1])
    return op.Squeeze(Y, [-2]) if row else Y


def _transposed(op: Emitter, node: Operator, value: ir.Value) -> ir.Value:
    """Exchange the last two axes, if there are two."""
    order = list(range(known_rank(node, value)))
    order[-2:] = reversed(order[-2:])
    return op.Transpose(value, perm=order) if len(order) > 1 else value


@gradient_operator("BatchMatMul")
def batch_matmul_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dA = dY·Bᵀ, dB = Aᵀ·dY, summed over the axes along which A or B were broadcast."""
    A, B = op.input
    args = Arguments(op)
    trans_a, trans_b = args.int("trans_a", 0), args.int("trans_b", 0)
    broadcast = args.int("broadcast", 0)

    def product(left: str, right: str, like: str, trans_a: int, trans_b: int) -> str:
        flags = {"trans_a": trans_a, "trans_b": trans_b, "broadcast": broadcast}
        whole = grad.add("BatchMatMul", [left, right], f"{like}_grad", **flags)
        if not broadcast:
            return whole
        return grad.add_all("AddGradient", [whole, like, whole], [f"{like}_grad", "unused"])[0]

    dA = product(B, dys[0], A, trans_b, 1) if trans_a else product(dys[0], B, A, 0, 1 - trans_b)
    dB = product(dys[0], A, B, 1, trans_a) if trans_b else product(A, dys[0], B, 1 - trans_a, 0)
    return [dA, dB]
