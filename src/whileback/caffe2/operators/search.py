"""Looking elements up among others."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.reading.emitter import Emitter


@lowering("Find")
def find(op: Emitter, node: Operator) -> ir.Value:
    """Y = the last place at which the first input holds each query, else `missing_value`."""
    values, queries = node.tensors(2)
    found = op.Equal(op.Unsqueeze(queries, [-1]), values)
    places = op.Where(found, op.arange(op.dim(values, 0)), -1)
    last = op.ReduceMax(places, [-1], keepdims=0)
    missing = node.args.int("missing_value", -1)
    return op.cast(op.Where(op.Less(last, 0), missing, last), values)


@lowering("FindDuplicateElements")
def find_duplicates(op: Emitter, node: Operator) -> ir.Value:
    """Y = the places of the elements that were there before."""
    (X,) = node.tensors(1)
    X = op.cast(X, ir.DataType.INT64) if X.dtype == ir.DataType.INT32 else X
    _, first, inverse, _ = op.emit("Unique", [X], {"sorted": 0}, outputs=4)
    repeated = op.Less(op.Gather(first, inverse), op.arange(op.dim(X, 0)))
    return op.Squeeze(op.NonZero(repeated), [0])


not_differentiable("it tells places", "Find", "FindDuplicateElements")
