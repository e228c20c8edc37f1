"""Piecewise linear functions."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label


@lowering("PiecewiseLinearTransform")
def piecewise_linear(op: Emitter, node: Operator) -> ir.Value:
    """Y = slope·X + intercept of the piece that X, kept within the bounds, falls into.

    Every column has pieces of its own. With `binary` there is one set: X holds the probabilities
    of two classes, or of the second one alone.
    """
    (X,) = node.tensors(1)
    if not node.args.bool("binary", False):
        return op.Transpose(_transformed(op, node, op.Transpose(X, perm=[1, 0])), perm=[1, 0])
    two = known_rank(node, X) == 2 and _columns(node, X) == 2
    positive = op.Slice(X, [1], [2], [1]) if two else X
    Y = op.reshape(_transformed(op, node, op.Reshape(positive, [1, -1])), positive)
    return op.Concat(op.Sub(1.0, Y), Y, axis=1) if two else Y


def _columns(node: Operator, X: ir.Value) -> int:
    """Return the number of columns of a matrix. Raises: NetDefError if it is not known."""
    assert X.shape is not None
    columns = X.shape[1]
    if not isinstance(columns, int):
        blob = node.proto.input[0]
        raise NetDefError(
            f"{label(node.proto)} needs the number of columns of blob '{blob}', 1 or 2, which is "
            f"not known. Give its shape with --input {blob}=…"
        )
    return columns


def _transformed(op: Emitter, node: Operator, X: ir.Value) -> ir.Value:
    """Return what a matrix becomes whose rows have pieces of their own."""
    groups = op.Concat(op.dim(X, 0), [-1], axis=0)
    bounds, slopes, intercepts = (op.Reshape(table, groups) for table in _tables(op, node, X))
    X = op.Max(op.Min(X, op.Slice(bounds, [-1], [2**31], [1])), op.Slice(bounds, [0], [1], [1]))
    inner = op.Unsqueeze(op.Slice(bounds, [1], [-1], [1]), [1])
    passed = op.cast(op.Greater(op.Unsqueeze(X, [2]), inner), ir.DataType.INT64)
    piece = op.ReduceSum(passed, [2], keepdims=0)
    slope, intercept = (op.GatherElements(each, piece, axis=1) for each in (slopes, intercepts))
    return op.Add(op.Mul(slope, X), intercept)


def _tables(op: Emitter, node: Operator, X: ir.Value) -> list[ir.Value]:
    """Return the bounds, slopes and intercepts, which are inputs or arguments."""
    if len(node.inputs) > 1:
        return node.tensors(4)[1:]
    names = ("bounds", "slopes", "intercepts")
    return [op.constant(node.args.floats(name), X.dtype) for name in names]
