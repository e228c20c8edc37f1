"""Rows of X and Y compared: their products, distances and angles, one number for each row."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import matrix
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

# The least square of a length that a cosine is computed with.
LEAST_SQUARE = 1e-12


def _row_sum(op: Emitter, X: ir.Value) -> ir.Value:
    """Return the sums over all axes but the first."""
    return op.ReduceSum(matrix(op, X, 1), [1], keepdims=0)


def _dot_product(op: Emitter, X: ir.Value, Y: ir.Value) -> ir.Value:
    return _row_sum(op, op.Mul(X, Y))


def _cosine(op: Emitter, X: ir.Value, Y: ir.Value) -> ir.Value:
    squares = (op.Max(_dot_product(op, each, each), LEAST_SQUARE) for each in (X, Y))
    return op.Div(_dot_product(op, X, Y), op.Sqrt(op.Mul(*squares)))


def _squared_l2(op: Emitter, X: ir.Value, Y: ir.Value) -> ir.Value:
    difference = op.Sub(X, Y)
    return op.Mul(_dot_product(op, difference, difference), 0.5)


def _l1(op: Emitter, X: ir.Value, Y: ir.Value) -> ir.Value:
    return _row_sum(op, op.Abs(op.Sub(X, Y)))


DISTANCES = {
    "CosineSimilarity": _cosine,
    "DotProduct": _dot_product,
    "L1Distance": _l1,
    "SquaredL2Distance": _squared_l2,
}


@lowering(*DISTANCES)
def distance(op: Emitter, node: Operator) -> ir.Value:
    """Σ x·y, Σ x·y / (‖x‖·‖y‖), Σ|x - y| or Σ(x - y)²/2 of each row x of X and y of Y."""
    return DISTANCES[node.type](op, *node.tensors(2))


@lowering(*(f"{name}Gradient" for name in DISTANCES))
def distance_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of X and Y, from X, Y and that of each row's number."""
    X, Y, dZ = node.tensors(3)
    return op.pullback(DISTANCES[node.type.removesuffix("Gradient")], [X, Y], [dZ])


@gradient_operator(*DISTANCES, "DotProductWithPadding")
def distance_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX, dY = <operator>Gradient(X, Y, dZ)."""
    X, Y = op.input
    return grad.emit(f"{op.type}Gradient", [X, Y, dys[0]], of=[X, Y], like=op)


@lowering("DotProductWithPadding")
def padded_dot_product(op: Emitter, node: Operator) -> ir.Value:
    """Σ x·y of each row, the shorter one padded with `pad_value`, or repeated (`replicate`)."""
    X, Y = node.tensors(2)
    return _padded_dot_product(op, node, X, Y)


def _padded_dot_product(op: Emitter, node: Operator, X: ir.Value, Y: ir.Value) -> ir.Value:
    widths = [_width(node, X), _width(node, Y)]
    few, many = sorted(widths)
    if few == many:
        return _dot_product(op, X, Y)
    short, long = (X, Y) if widths[0] == few else (Y, X)
    if node.args.bool("replicate", False):
        times = many // few
        parts = op.Reshape(op.Slice(long, [0], [times * few], [1]), [0, times, few])
        return _dot_product(op, short, op.ReduceSum(parts, [1], keepdims=0))
    rest = op.Mul(op.Slice(long, [few], [many], [1]), node.args.float("pad_value", 0.0))
    common = _dot_product(op, short, op.Slice(long, [0], [few], [1]))
    return op.Add(common, _row_sum(op, rest))


def _width(node: Operator, value: ir.Value) -> int:
    """Return the length of the rows of a matrix.

    Raises: NetDefError if it is not known.
    """
    shape = value.shape
    width = shape[1] if shape is not None and len(shape) == 2 else None
    if not isinstance(width, int):
        raise NetDefError(
            f"{label(node.proto)} needs two matrices with rows of known lengths, "
            f"{list(node.proto.input[:2])}. Give their shapes with --input."
        )
    return width


@lowering("DotProductWithPaddingGradient")
def padded_dot_product_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of X and Y, from X, Y and that of each row's number."""
    X, Y, dZ = node.tensors(3)
    return op.pullback(lambda op, X, Y: _padded_dot_product(op, node, X, Y), [X, Y], [dZ])
