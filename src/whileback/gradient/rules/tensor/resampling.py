"""What `Resize` is made of: samples along each axis, at points that depend on its scales.

The points are found in FLOAT, as in ONNX Runtime, since rounding decides which pixel is nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.sampling import Taps, cubic, inside, linear
from whileback.graph.builder import Builder
from whileback.graph.shapes import rank, size, static_shape

__all__ = ["given_scales", "rank_of", "resampled", "resized_axes"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def rank_of(node: ir.Node) -> int | None:
    """Return the rank of what is resized, where any of the node's values tells it."""
    known = rank(required(node)) or rank(node.outputs[0])
    if known is None and "axes" not in node.attributes:
        lengths = [size(value) for value in node.inputs[2:] if value is not None]
        return next(filter(None, lengths), None)
    return known


def resized_axes(node: ir.Node) -> Sequence[int]:
    """Return the axes that are resized; the rank must be known."""
    count = rank_of(node)
    assert count is not None, node
    axes = node.attributes.get_ints("axes")
    return range(count) if axes is None else [axis % count for axis in axes]


def given_scales(node: ir.Node) -> ir.Value | None:
    """Return the scales; older models leave an empty tensor in their place."""
    scales = optional(node, 2)
    return None if scales is None or static_shape(scales) == (0,) else scales


@dataclass(frozen=True)
class _Line:
    """One of the axes that are resized; all are FLOAT[1].

    `before` and `after` are its lengths, and `scale` is not always their quotient; the part from
    `start` to `end` of it is what is read, if only a part is.
    """

    before: ir.Value
    after: ir.Value
    scale: ir.Value
    start: ir.Value | None
    end: ir.Value | None


def resampled(
    op: GradientBuilder,
    node: ir.Node,
    X: ir.Value,
    roi: ir.Value | None = None,
    scales: ir.Value | None = None,
    sizes: ir.Value | None = None,
) -> ir.Value:
    """Return the output of a `Resize` node, given its inputs, by operators that have rules."""
    Y, outside, count = op.widened(X), op.constant(False), rank_of(node) or 0
    for axis, line in zip(resized_axes(node), _lines(op, node, X, roi, scales, sizes), strict=True):
        points = _points(op, node, line)
        taps = _taps(op, node, line, points)
        behind = count - 1 - axis
        weights = _before_axes(op, op.cast(taps.weights, Y), behind)
        terms = op.Mul(op.Gather(Y, taps.places, axis=axis), weights)
        Y = op.ReduceSum(terms, [axis + 1], keepdims=0)
        beyond = op.Or(op.Less(points, 0.0), op.Greater(points, op.Sub(line.before, 1.0)))
        outside = op.Or(outside, _before_axes(op, beyond, behind))
    if _coordinates(node) == "tf_crop_and_resize":
        Y = op.Where(outside, node.attributes.get_float("extrapolation_value", 0.0), Y)
    return op.cast(Y, X)


def _before_axes(op: Builder, value: ir.Value, count: int) -> ir.Value:
    """Return the value with so many axes of size 1 behind its own."""
    return op.Unsqueeze(value, list(range(-count, 0))) if count else value


def _coordinates(node: ir.Node) -> str:
    return node.attributes.get_string("coordinate_transformation_mode", "half_pixel")


def _lines(
    op: Builder,
    node: ir.Node,
    X: ir.Value,
    roi: ir.Value | None,
    scales: ir.Value | None,
    sizes: ir.Value | None,
) -> list[_Line]:
    axes = resized_axes(node)
    before, after = (
        [op.cast(op.dim(value, axis), _FLOAT) for axis in axes] for value in (X, node.outputs[0])
    )
    numbers = sizes if given_scales(node) is None else scales
    assert numbers is not None, node
    parts = [op.cast(op.Slice(numbers, [k], [k + 1]), _FLOAT) for k in range(len(axes))]
    if given_scales(node) is None:
        parts = [op.Div(wanted, length) for wanted, length in zip(parts, before, strict=True)]
        policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            parts = [(op.Min if policy == "not_larger" else op.Max)(*parts)] * len(axes)
    bounds: Sequence[ir.Value | None] = [None] * 2 * len(axes)
    if roi is not None and _coordinates(node) == "tf_crop_and_resize":
        bounds = [op.cast(op.Slice(roi, [k], [k + 1]), _FLOAT) for k in range(2 * len(axes))]
    return [
        _Line(before[k], after[k], parts[k], bounds[k], bounds[k + len(axes)])
        for k in range(len(axes))
    ]


def _points(op: Builder, node: ir.Node, line: _Line) -> ir.Value:
    """Return which point of the input each place of the output stands for."""
    mode, last = _coordinates(node), op.Sub(line.before, 1.0)
    places = op.cast(op.arange(op.cast(line.after, _INT64)), _FLOAT)
    single, gaps = op.Equal(line.after, 1.0), op.Max(op.Sub(line.after, 1.0), 1.0)
    if mode == "asymmetric":
        return op.Div(places, line.scale)
    if mode == "align_corners":
        return op.Div(op.Mul(places, last), gaps)
    if line.start is not None and line.end is not None:
        step = op.Div(op.Mul(op.Sub(line.end, line.start), last), gaps)
        middle = op.Mul(op.Mul(op.Add(line.start, line.end), 0.5), last)
        return op.Where(single, middle, op.Add(op.Mul(line.start, last), op.Mul(places, step)))
    points = op.Sub(op.Div(op.Add(places, 0.5), line.scale), 0.5)
    if mode == "pytorch_half_pixel":
        return op.Where(single, 0.0, points)
    if mode == "half_pixel_symmetric":
        share = op.Div(line.after, op.Mul(line.scale, line.before))
        return op.Add(op.Mul(op.Div(line.before, 2.0), op.Sub(1.0, share)), points)
    return points


def _taps(op: Builder, node: ir.Node, line: _Line, points: ir.Value) -> Taps:
    """Return what is read for these points along an axis, and with which weights."""
    mode, length = node.attributes.get_string("mode", "nearest"), op.cast(line.before, _INT64)
    if mode == "nearest":
        places = op.Unsqueeze(op.Cast(_rounded(op, node, points), to=int(_INT64)), [1])
        taps = Taps(places, op.constant([[1]], _FLOAT))
    elif node.attributes.get_int("antialias", 0):
        taps = _smooth(op, node, points, op.Min(line.scale, 1.0))
    elif mode == "linear":
        taps = linear(op, points)
    else:
        taps = cubic(op, points, node.attributes.get_float("cubic_coeff_a", -0.75))
    if node.attributes.get_int("exclude_outside", 0):
        taps = inside(op, taps, length)
        return Taps(taps.places, op.Div(taps.weights, op.ReduceSum(taps.weights, [1])))
    return Taps(op.Min(op.Max(taps.places, 0), op.Sub(length, 1)), taps.weights)


def _rounded(op: Builder, node: ir.Node, points: ir.Value) -> ir.Value:
    """Return the nearest places; from the middle between two as `nearest_mode` says."""
    mode = node.attributes.get_string("nearest_mode", "round_prefer_floor")
    if mode == "ceil":
        return op.Ceil(points)
    before = op.Floor(points)
    if mode == "floor":
        return before
    beyond = op.Greater if mode == "round_prefer_floor" else op.GreaterOrEqual
    return op.Where(beyond(op.Sub(points, before), 0.5), op.Add(before, 1.0), before)


def _smooth(op: Builder, node: ir.Node, points: ir.Value, stretch: ir.Value) -> Taps:
    """Return what a filter reads that is wider than 1 where fewer places are made."""
    radius = 1.0 if node.attributes.get_string("mode", "nearest") == "linear" else 2.0
    reach = op.Cast(op.Ceil(op.Div(radius, stretch)), to=int(_INT64))
    before = op.Unsqueeze(op.Cast(op.Floor(points), to=int(_INT64)), [1])
    places = op.Add(before, op.Sub(op.arange(op.Mul(reach, 2)), op.Sub(reach, 1)))
    distances = op.Sub(op.cast(places, _FLOAT), op.Unsqueeze(points, [1]))
    weights = _filter(op, node, op.Abs(op.Mul(distances, stretch)))
    return Taps(places, op.Div(weights, op.ReduceSum(weights, [1])))


def _filter(op: Builder, node: ir.Node, d: ir.Value) -> ir.Value:
    """Return the weight of what lies at this distance: of a tent, or of cubic convolution."""
    if node.attributes.get_string("mode", "nearest") == "linear":
        return op.Relu(op.Sub(1.0, d))
    a = node.attributes.get_float("cubic_coeff_a", -0.75)
    near = op.Add(op.Mul(op.Mul(op.Sub(op.Mul(d, a + 2), a + 3), d), d), 1.0)
    far = op.Mul(op.Sub(op.Mul(op.Add(op.Mul(op.Sub(d, 5.0), d), 8.0), d), 4.0), a)
    return op.Where(op.LessOrEqual(d, 1.0), near, op.Where(op.Less(d, 2.0), far, 0.0))
