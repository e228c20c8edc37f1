"""Numbers at equal steps."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.fills import fill_shape
from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.reading.emitter import Emitter


@lowering("Range")
def range_(op: Emitter, node: Operator) -> ir.Value:
    """Y = start, start + step … before stop; from 0 in steps of 1 where only the stop is given."""
    numbers = [op.Reshape(each, []) for each in node.tensors(len(node.inputs))]
    if len(numbers) == 1:
        numbers = [op.constant(0, numbers[0].dtype), *numbers]
    step = numbers[2] if len(numbers) > 2 else op.constant(1, numbers[0].dtype)
    return op.Range(numbers[0], numbers[1], step)


@lowering("RangeFill")
def range_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = 0, 1, 2 … in the shape that is to be filled."""
    shape = fill_shape(op, node)
    numbers = op.Range(0, op.ReduceProd(shape, keepdims=0), 1)
    return op.Reshape(op.cast(numbers, ir.DataType.FLOAT), shape, allowzero=1)


not_differentiable("its elements are counted, not computed from its inputs", "Range", "RangeFill")
