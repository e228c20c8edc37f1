"""Numbers at equal steps."""

from __future__ import annotations

import math

import onnx_ir as ir

from whileback.caffe2.operators.fills import fill_shape
from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.operators.shapes import check_size
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.graph.constants import known_floats


@lowering("Range")
def range_(op: Emitter, node: Operator) -> ir.Value:
    """Y = start, start + step … before stop; from 0 in steps of 1 where only the stop is given."""
    numbers = [op.Reshape(each, []) for each in node.tensors(len(node.inputs))]
    if len(numbers) == 1:
        numbers = [op.constant(0, numbers[0].dtype), *numbers]
    if len(numbers) == 2:
        numbers = [*numbers, op.constant(1, numbers[0].dtype)]
    _check_range(node, numbers)
    return op.Range(*numbers)


def _check_range(node: Operator, numbers: list[ir.Value]) -> None:
    known = [known_floats(each) for each in numbers]
    start, stop, step = (None if each is None else each[0] for each in known)
    if step == 0:
        raise NetDefError(f"{label(node.proto)} has step 0, which never reaches the stop.")
    if start is not None and stop is not None and step is not None:
        check_size(node, [max(0, math.ceil((stop - start) / step))])


@lowering("RangeFill")
def range_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y = 0, 1, 2 … in the shape that is to be filled."""
    shape = fill_shape(op, node)
    numbers = op.Range(0, op.ReduceProd(shape, keepdims=0), 1)
    return op.Reshape(op.cast(numbers, ir.DataType.FLOAT), shape, allowzero=1)


not_differentiable("its elements are counted, not computed from its inputs", "Range", "RangeFill")
