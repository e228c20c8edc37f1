"""Filling a tensor with random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.fills import fill_shape
from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.operators.shapes import MOST_ELEMENTS
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import TensorProto
from whileback.formats.caffe2.tensors import numpy_dtype
from whileback.graph.constants import known_ints


def _random(
    op: Emitter,
    node: Operator,
    distribution: str,
    shape: ir.Value,
    parameters: Mapping[str, float],
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> ir.Value:
    """Return random numbers, from the seed of the operator's device where one is given."""
    device = node.proto.device_option
    attributes: dict[str, Any] = {"dtype": int(dtype), **parameters}
    if device.HasField("random_seed"):
        attributes["seed"] = float(device.random_seed)
    known = known_ints(shape)
    if known:
        return op.emit(f"Random{distribution}", [], {"shape": known, **attributes})[0]
    zeros = op.Expand(op.constant(np.zeros((), dtype.numpy())), shape)
    return op.emit(f"Random{distribution}Like", [zeros], attributes)[0]


def _limits(node: Operator, low: float, high: float) -> tuple[float, float]:
    if not low < high or math.isinf(high - low):
        raise NetDefError(
            f"{label(node.proto)} has 'min' {low} and 'max' {high}; the first must be smaller, and "
            "both must be finite."
        )
    return low, high


@lowering("UniformFill", "Float16UniformFill")
def uniform_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y ~ U(min, max), the limits from two more inputs if there are any."""
    shape = fill_shape(op, node)
    if len(node.inputs) == 3:
        start, end = (op.Reshape(limit, []) for limit in node.tensors(3)[1:])
        return op.Add(start, op.Mul(op.Sub(end, start), _random(op, node, "Uniform", shape, {})))
    low, high = _limits(node, node.args.float("min", 0.0), node.args.float("max", 1.0))
    Y = _random(op, node, "Uniform", shape, {"low": low, "high": high})
    return op.cast(Y, ir.DataType.FLOAT16) if node.type == "Float16UniformFill" else Y


@lowering("UniformIntFill")
def uniform_int_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y ~ an integer from min to max, both included: ⌊U(min, max + 1)⌋."""
    shape = fill_shape(op, node)
    if len(node.inputs) == 3:
        limits = (op.Reshape(op.cast(each, ir.DataType.DOUBLE), []) for each in node.tensors(3)[1:])
        low, high = limits
    else:
        first, last = _limits(node, node.args.int("min", 0), node.args.int("max", 1))
        low, high = op.constant(float(first)), op.constant(float(last))
    share = _random(op, node, "Uniform", shape, {}, ir.DataType.DOUBLE)
    count = op.Add(op.Sub(high, low), 1.0)
    return op.Cast(op.Add(low, op.Floor(op.Mul(share, count))), to=int(ir.DataType.INT32))


@lowering("GaussianFill")
def gaussian_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y ~ N(mean, std²)."""
    shape = fill_shape(op, node)
    mean, scale = node.args.float("mean", 0.0), node.args.float("std", 1.0)
    if not 0 <= scale < math.inf:
        raise NetDefError(f"{label(node.proto)} has 'std' {scale}; it must be 0 or more.")
    if scale == 0:  # which ONNX Runtime 1.32 does not survive
        return op.Expand(op.constant(np.float32(mean)), shape)
    return _random(op, node, "Normal", shape, {"mean": mean, "scale": scale})


@lowering("XavierFill")
def xavier_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y ~ U(-s, s) with s² = 3/n for n inputs: the elements for each along the first axis."""
    return _scaled(op, node, 3.0, 0, "Uniform", {"low": -1.0, "high": 1.0})


@lowering("MSRAFill")
def msra_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y ~ N(0, 2/n) for n outputs: the elements for each along the second axis."""
    return _scaled(op, node, 2.0, 1, "Normal", {"scale": 1.0})


def _scaled(
    op: Emitter,
    node: Operator,
    square: float,
    axis: int,
    distribution: str,
    unit: Mapping[str, float],
) -> ir.Value:
    """Return random numbers times √(square/n) where n elements go with each along an axis."""
    shape = fill_shape(op, node)
    known = known_ints(shape)
    if known is None:
        others = op.Where(op.Equal(op.arange(op.Shape(shape)), axis), 1, shape)
        n = op.cast(op.ReduceProd(others, keepdims=0), ir.DataType.FLOAT)
        return op.Mul(op.Sqrt(op.Div(square, n)), _random(op, node, distribution, shape, unit))
    if len(known) <= axis:
        raise NetDefError(f"{label(node.proto)} needs an axis {axis}, but has the shape {known}.")
    count = math.prod(known[:axis] + known[axis + 1 :])
    factor = math.sqrt(square / max(count, 1))
    parameters = {name: value * factor for name, value in unit.items()}
    return _random(op, node, distribution, shape, parameters)


@lowering("UniqueUniformFill")
def unique_uniform_fill(op: Emitter, node: Operator) -> ir.Value:
    """Y ~ integers from min to max, all different, none of those in a second input.

    Each candidate gets a random number; those with the largest are chosen.
    """
    shape = fill_shape(op, node)
    low, count = node.args.int("min"), node.args.int("max") + 1 - node.args.int("min")
    wanted = math.prod(known_ints(shape) or ())
    if not max(wanted, 1) <= count <= MOST_ELEMENTS:
        raise NetDefError(
            f"{label(node.proto)} cannot choose {wanted} among {count} numbers; the limits are 1 "
            f"and {MOST_ELEMENTS}. Correct 'min' and 'max', or give the blob as an input."
        )
    chances = _random(op, node, "Uniform", op.constant(np.array([count], np.int64)), {})
    if (avoided := node.optional(1)) is not None:
        chances = _without(op, chances, op.Sub(op.cast(avoided, ir.DataType.INT64), low), count)
    _, chosen = op.emit("TopK", [chances, op.ReduceProd(shape, keepdims=1)], {}, outputs=2)
    dtype = numpy_dtype(node.args.int("dtype", TensorProto.INT32), label(node.proto))
    Y = op.Reshape(op.Add(chosen, low), shape)
    return op.cast(Y, ir.DataType.from_numpy(dtype))


def _without(op: Emitter, chances: ir.Value, places: ir.Value, count: int) -> ir.Value:
    """Leave no chance to the numbers at the places, of which some may be too small or too large."""
    inside = op.And(op.GreaterOrEqual(places, 0), op.Less(places, count))
    places = op.Compress(places, inside, axis=0)
    none = op.Expand(op.constant(np.float32(-1)), op.Shape(places))
    return op.ScatterElements(chances, places, none)


not_differentiable(
    "it fills a tensor with random numbers",
    "Float16UniformFill",
    "GaussianFill",
    "MSRAFill",
    "UniformFill",
    "UniformIntFill",
    "UniqueUniformFill",
    "XavierFill",
)
