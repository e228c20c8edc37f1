"""The expansion of Resize: along each axis, a product with a matrix of weights.

Row o of the matrix holds the interpolating filter around the point x(o) that the output o stands
for, evaluated at every place of the input, which is continued beyond its ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.checking.expansion import Expansion, float_attribute, known_rank
from whileback.graph.builder import Builder
from whileback.graph.shapes import static_shape

__all__ = ["RESIZE"]

_FLOAT, _DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE


@dataclass(frozen=True)
class _Axis:
    """One of the axes that are resized, the `index`th of them.

    `before` and `after` are its lengths, and `scale` is not always their quotient; all are DOUBLE,
    but FLOAT where the nearest place is wanted, so that the runtime's own rounding finds it.
    """

    index: int
    before: ir.Value
    after: ir.Value
    scale: ir.Value


def _resize(
    op: Builder,
    node: ir.Node,
    x: ir.Value,
    roi: ir.Value | None = None,
    scales: ir.Value | None = None,
    sizes: ir.Value | None = None,
) -> Sequence[ir.Value]:
    rank = known_rank(x)
    chosen = [axis % rank for axis in node.attributes.get_ints("axes", list(range(rank)))]
    given = None if scales is None or static_shape(scales) == (0,) else scales
    axes = _axes(op, node, [op.dim(x, axis) for axis in chosen], given, sizes)
    y, outside = x, op.constant(False)
    for number, axis in zip(chosen, axes, strict=True):
        points = _points(op, node, axis, roi, len(axes))
        y = _along(op, node, y, number, axis, points)
        beyond = op.Or(op.Less(points, 0.0), op.Greater(points, op.Sub(axis.before, 1.0)))
        behind = list(range(1, rank - number))
        outside = op.Or(outside, op.Unsqueeze(beyond, behind) if behind else beyond)
    if _coordinates(node) == "tf_crop_and_resize":
        y = op.Where(outside, float_attribute(node, "extrapolation_value", 0.0), y)
    return [y]


def _coordinates(node: ir.Node) -> str:
    return node.attributes.get_string("coordinate_transformation_mode", "half_pixel")


def _mode(node: ir.Node) -> str:
    return node.attributes.get_string("mode", "nearest")


def _axes(
    op: Builder,
    node: ir.Node,
    lengths: Sequence[ir.Value],
    scales: ir.Value | None,
    sizes: ir.Value | None,
) -> list[_Axis]:
    """Return the axes; the runtime finds their new lengths in float32."""
    kind = _FLOAT if _mode(node) == "nearest" else _DOUBLE
    before = [op.cast(length, kind) for length in lengths]
    given = sizes if scales is None else scales
    assert given is not None, node
    numbers = [op.cast(op.Slice(given, [k], [k + 1]), kind) for k in range(len(lengths))]
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    if scales is not None:
        after = [op.Floor(_product(op, s, b)) for s, b in zip(numbers, before, strict=True)]
    else:
        after, numbers = numbers, [op.Div(n, b) for n, b in zip(numbers, before, strict=True)]
        if policy != "stretch":
            choose = op.Min if policy == "not_larger" else op.Max
            numbers = [choose(*numbers)] * len(numbers)
            rounded = (op.Add(_product(op, numbers[0], b), 0.5) for b in before)
            after = [op.Floor(length) for length in rounded]
    known = zip(before, after, numbers, strict=True)
    return [_Axis(k, b, op.cast(a, kind), s) for k, (b, a, s) in enumerate(known)]


def _product(op: Builder, scale: ir.Value, length: ir.Value) -> ir.Value:
    return op.Mul(op.cast(scale, _FLOAT), op.cast(length, _FLOAT))


def _points(op: Builder, node: ir.Node, axis: _Axis, roi: ir.Value | None, count: int) -> ir.Value:
    """Return x(o) for every output o."""
    mode, last = _coordinates(node), op.Sub(axis.before, 1.0)
    o = op.cast(op.arange(op.cast(axis.after, ir.DataType.INT64)), axis.before)
    single = op.Equal(axis.after, 1.0)
    if mode == "asymmetric":
        return op.Div(o, axis.scale)
    gaps = op.Where(single, 1.0, op.Sub(axis.after, 1.0))
    if mode == "align_corners":
        return op.Div(op.Mul(o, last), gaps)
    if mode == "tf_crop_and_resize":
        assert roi is not None, node
        start, end = (
            op.cast(op.Slice(roi, [k], [k + 1]), o) for k in (axis.index, axis.index + count)
        )
        steps = op.Div(op.Mul(op.Sub(end, start), last), gaps)
        middle = op.Mul(op.Mul(op.Add(start, end), 0.5), last)
        return op.Where(single, middle, op.Add(op.Mul(start, last), op.Mul(o, steps)))
    x = op.Sub(op.Div(op.Add(o, 0.5), axis.scale), 0.5)
    if mode == "pytorch_half_pixel":
        return op.Where(single, 0.0, x)
    if mode == "half_pixel_symmetric":
        adjustment = op.Div(axis.after, op.Mul(axis.scale, axis.before))
        return op.Add(op.Mul(op.Div(axis.before, 2.0), op.Sub(1.0, adjustment)), x)
    return x


def _along(
    op: Builder, node: ir.Node, x: ir.Value, number: int, axis: _Axis, points: ir.Value
) -> ir.Value:
    """Multiply by the matrix of weights along one axis."""
    swap = list(range(known_rank(x)))
    swap[number], swap[-1] = swap[-1], swap[number]
    places, weights = _weights(op, node, axis, points)
    last = op.cast(op.Sub(axis.before, 1.0), ir.DataType.INT64)
    rows = op.Gather(x, op.Min(op.Max(places, 0), last), axis=number)
    product = op.MatMul(op.Transpose(rows, perm=swap), op.Transpose(op.cast(weights, x)))
    return op.Transpose(product, perm=swap)


def _weights(
    op: Builder, node: ir.Node, axis: _Axis, points: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return places of the input and beyond it, and the weights that outputs give them."""
    if _mode(node) == "nearest":
        places = op.arange(op.cast(axis.before, ir.DataType.INT64))
        hit = op.Equal(op.Unsqueeze(_nearest(op, node, axis, points), [1]), places)
        return places, op.Cast(hit, to=int(_DOUBLE))
    radius = 1.0 if _mode(node) == "linear" else 2.0
    smooth = node.attributes.get_int("antialias", 0)
    stretch = op.Min(axis.scale, 1.0) if smooth else op.constant([1.0])
    beyond = op.Cast(op.Ceil(op.Div(radius, stretch)), to=int(ir.DataType.INT64))
    total = op.Add(op.cast(axis.before, ir.DataType.INT64), op.Mul(beyond, 2))
    places = op.Sub(op.arange(total), beyond)
    distances = op.Sub(op.cast(places, _DOUBLE), op.Unsqueeze(points, [1]))
    weights = _filter(op, node, op.Abs(op.Mul(distances, stretch)))
    if node.attributes.get_int("exclude_outside", 0):
        there = op.And(
            op.GreaterOrEqual(places, 0), op.Less(places, op.cast(axis.before, ir.DataType.INT64))
        )
        weights = op.Where(there, weights, 0.0)
    return places, op.Div(weights, op.ReduceSum(weights, [1]))


def _filter(op: Builder, node: ir.Node, d: ir.Value) -> ir.Value:
    """Return the weight of what lies at this distance."""
    if _mode(node) == "linear":
        return op.Relu(op.Sub(1.0, d))
    a = float_attribute(node, "cubic_coeff_a", -0.75)
    near = op.Add(op.Mul(op.Mul(d, d), op.Sub(op.Mul(d, a + 2), a + 3)), 1.0)
    far = op.Mul(op.Sub(op.Mul(op.Add(op.Mul(op.Sub(d, 5.0), d), 8.0), d), 4.0), a)
    return op.Where(op.LessOrEqual(d, 1.0), near, op.Where(op.Less(d, 2.0), far, 0.0))


def _nearest(op: Builder, node: ir.Node, axis: _Axis, points: ir.Value) -> ir.Value:
    mode = node.attributes.get_string("nearest_mode", "round_prefer_floor")
    rounded = {
        "round_prefer_floor": lambda: op.Ceil(op.Sub(points, 0.5)),
        "round_prefer_ceil": lambda: op.Floor(op.Add(points, 0.5)),
        "floor": lambda: op.Floor(points),
        "ceil": lambda: op.Ceil(points),
    }[mode]()
    inside = op.Min(op.Max(rounded, 0.0), op.Sub(axis.before, 1.0))
    return op.Cast(inside, to=int(ir.DataType.INT64))


RESIZE: dict[str, Expansion] = {"Resize": _resize}
