"""How often predictions are right."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.entropies import at_labels
from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.reading.emitter import Emitter


@lowering("Accuracy")
def accuracy(op: Emitter, node: Operator) -> ir.Value:
    """The share of rows whose label is among the `top_k` largest; of equals the first counts."""
    X, labels = node.tensors(2)
    count = op.Min(op.dim(X, 1), node.args.int("top_k", 1))
    _, best = op.emit("TopK", [X, count], {"axis": 1}, 2)
    labels = op.Unsqueeze(op.cast(labels, ir.DataType.INT64), [1])
    hits = op.ReduceMax(op.cast(op.Equal(best, labels), X), [1])
    return op.ReduceMean(hits, keepdims=0)


@lowering("MultiClassAccuracy")
def multi_class_accuracy(op: Emitter, node: Operator) -> list[ir.Value]:
    """For each class, the share of its rows that have it as their largest, and their number."""
    X, labels = node.tensors(2)
    labels = op.cast(op.Reshape(labels, [-1]), ir.DataType.INT64)
    hits = op.cast(op.Equal(op.ArgMax(X, axis=1, keepdims=0), labels), X)
    members = at_labels(op, labels, X)
    amounts = op.ReduceSum(members, [0], keepdims=0)
    right = op.ReduceSum(op.Mul(members, op.Unsqueeze(hits, [1])), [0], keepdims=0)
    return [op.Div(right, op.Max(amounts, 1.0)), op.cast(amounts, ir.DataType.INT32)]


not_differentiable("It counts.", "Accuracy", "MultiClassAccuracy")
