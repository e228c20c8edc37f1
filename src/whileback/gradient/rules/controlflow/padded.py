"""Keeping values whose shape changes from trip to trip: rows filled up to one size.

A value is kept as its elements, with zeros behind them, and its shape beside it. The loop runs
ahead to find the largest size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.rules.controlflow.ahead import Update, run_ahead
from whileback.graph.builder import Builder
from whileback.graph.moving import taken_out
from whileback.graph.randomness import draws
from whileback.graph.scopes import LoopView
from whileback.graph.shapes import describe, static_shape

__all__ = ["Padded", "pad", "unpad"]


@dataclass(frozen=True)
class Padded:
    """A value of a body, its elements with zeros behind them, and its shape."""

    value: ir.Value
    row: ir.Value
    shape: ir.Value


def pad(op: Builder, view: LoopView, values: Sequence[ir.Value]) -> list[Padded]:
    """Let a loop's body compute, for some of its values, rows of which all have one shape.

    The shape of a value of unknown rank is such a value again; it comes after it.

    Raises:
        UnsupportedError: if the sizes cannot be found by running the loop ahead.
    """
    if not values:
        return []
    body = op.within(view.body)
    body.origin = view.node
    shapes = {value: body.Shape(value) for value in values}
    for shape in list(shapes.values()):
        if static_shape(shape) is None:
            shapes[shape] = body.Shape(shape)
    sizes = {value: body.Size(value) for value in shapes}
    largest = _largest(op, view, list(sizes.values()))
    return [
        Padded(value, _filled(body, value, sizes[value], total), shapes[value])
        for value, total in zip(shapes, largest, strict=True)
    ]


def _largest(op: Builder, view: LoopView, sizes: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the largest of each of these numbers in any trip, as INT64[1]."""
    around = view.node.graph
    assert isinstance(around, ir.Graph)
    if view.trip is None:
        raise UnsupportedError(_cannot_run_ahead(view, sizes[0]))
    apart = op.inside("ahead")
    apart.origin = view.node
    found = [
        apart.Reshape(number, [1])
        for number in run_ahead(apart, view.node, sizes, [_maximum(size) for size in sizes])
    ]
    if any(draws(node) for node in apart.graph):
        raise UnsupportedError(_cannot_run_ahead(view, sizes[0]))
    around.insert_before(view.node, taken_out(apart.graph))
    return found


def _maximum(size: ir.Value) -> Update:
    return lambda op, number, copies: op.Max(number, copies[size])


def _filled(op: Builder, value: ir.Value, size: ir.Value, total: ir.Value) -> ir.Value:
    """Return the elements of a value, and zeros behind them; ONNX Runtime pads few types."""
    dtype = value.dtype or ir.DataType.FLOAT
    missing = op.Sub(total, op.Reshape(size, [1]))
    zeros = op.ConstantOfShape(missing, value=ir.tensor(np.zeros(1, dtype.numpy())))
    filled = op.Concat(op.Reshape(value, [-1]), zeros, axis=0)
    filled.shape = ir.Shape([op.shapes.new_dim()])
    return filled


def unpad(op: Builder, padded: Padded, shape: ir.Value) -> ir.Value:
    """Return the value from its row and from what stands for its shape."""
    size = op.ReduceProd(shape, [0], keepdims=1)
    result = op.Reshape(op.Slice(padded.row, [0], size, [0]), shape, allowzero=1)
    result.shape = padded.value.shape
    return result


def _cannot_run_ahead(view: LoopView, size: ir.Value) -> str:
    node = size.producer()
    assert node is not None and node.inputs[0] is not None
    value = node.inputs[0]
    return (
        f"Value '{value.name}' ({describe(value)}) in the body of '{view.node.name}' "
        f"({view.node.op_type}) changes its shape from trip to trip, and the gradient needs it "
        "from every trip. How large it gets is found by running the loop ahead, which cannot be "
        "done for a Scan, nor where that takes random numbers. Draw before the loop, or give the "
        "value a fixed shape."
    )
