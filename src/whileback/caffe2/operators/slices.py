"""Cutting a range out of a tensor."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import size


def _bounds(op: Emitter, node: Operator, given: ir.Value | None, name: str) -> ir.Value:
    """Return starts or ends as ONNX counts them.

    A negative one counts from behind the last element: -1 is the end, -2 the last element.
    """
    if given is None:
        known = node.args.ints(name)
        bounds = [each if each >= 0 else each + 1 or sys.maxsize for each in known]
        return op.constant(np.array(bounds, np.int64))
    given = op.cast(given, ir.DataType.INT64)
    from_end = op.Where(op.Equal(given, -1), sys.maxsize, op.Add(given, 1))
    return op.Where(op.Less(given, 0), from_end, given)


def _slice(op: Emitter, node: Operator, X: ir.Value, *given: ir.Value) -> ir.Value:
    first, last = given if given else (None, None)
    starts, ends = _bounds(op, node, first, "starts"), _bounds(op, node, last, "ends")
    count = size(starts)
    axes = op.arange(op.Shape(starts)) if count is None else op.constant(np.arange(count))
    return op.Slice(X, starts, ends, axes)


@lowering("Slice")
def slice_(op: Emitter, node: Operator) -> ir.Value:
    """Y = the elements of X from `starts` to before `ends` along the first axes."""
    X, *given = node.tensors(len(node.inputs))
    return _slice(op, node, X, *given)


@lowering("SliceGradient")
def slice_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY at the place of the slice, 0 elsewhere."""
    X, *given, dY = node.tensors(len(node.inputs))
    return op.pullback(lambda op, X: _slice(op, node, X, *given), [X], [dY])


@gradient_operator("Slice")
def slice_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = SliceGradient(X, the starts and ends if they are inputs, dY)."""
    X, *given = op.input
    return [*grad.emit("SliceGradient", [*op.input, dys[0]], of=[X], like=op), *[None] * len(given)]
