"""The gradient of `DeformConv`: a convolution that reads between pixels, where it is told to."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.definition import by_definition
from whileback.gradient.rules.nn.windows import Window, input_window
from whileback.gradient.rules.sampling import inside, linear, pixels, weighted
from whileback.graph.builder import Builder, Operand


@rule("DeformConv")
def deform_conv(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Sequence[ir.Value | None]:
    """Y[o] = Σ W[k]·mask[k,o]·X(s·o + d·k - p + offset[k,o]) + B, with linear samples of X.

    So the gradients are those of a product of the samples with W, and of these as `GridSample`
    has them; at a pixel the slope is the one to its right.
    """
    return by_definition(op, node, dY, _define)


def _define(
    op: GradientBuilder,
    node: ir.Node,
    X: ir.Value,
    W: ir.Value,
    offset: ir.Value,
    B: ir.Value | None = None,
    mask: ir.Value | None = None,
) -> ir.Value:
    window, group = input_window(node), node.attributes.get_int("group", 1)
    batch, sizes = op.dim(X, 0), [op.dim(offset, axis) for axis in window.axes]
    read = _read(op, node, window, X, W, offset, mask)
    rows, columns = op.Div(op.dim(W, 0), group), op.ReduceProd(op.Shape(W, start=1), keepdims=1)
    data = _shaped(
        op, read, batch, [group], columns, op.ReduceProd(op.Concat(*sizes, axis=0), keepdims=1)
    )
    weight = _shaped(op, op.widened(W), [group], rows, columns)
    Y = _shaped(op, op.MatMul(weight, data), batch, op.dim(W, 0), *sizes)
    if B is not None:
        Y = op.Add(Y, op.Unsqueeze(op.widened(B), list(range(1, 1 + len(sizes)))))
    return op.cast(Y, X)


def _read(
    op: Builder,
    node: ir.Node,
    window: Window,
    X: ir.Value,
    W: ir.Value,
    offset: ir.Value,
    mask: ir.Value | None,
) -> ir.Value:
    """Return what the windows read, [N·offset groups, channels of one, kernel, output…]."""
    groups, axes = node.attributes.get_int("offset_group", 1), window.axes
    parts, count = op.Mul(op.dim(X, 0), groups), op.ReduceProd(op.Shape(W, start=2), keepdims=1)
    sizes = [op.dim(offset, axis) for axis in axes]
    channels = op.Div(op.dim(X, 1), groups)
    images = _shaped(op, op.widened(X), parts, channels, *(op.dim(X, axis) for axis in axes))
    moves = _shaped(op, op.widened(offset), parts, count, [len(axes)], *sizes)
    columns = op.emit("Split", [moves], {"axis": 2, "num_outputs": len(axes)}, outputs=len(axes))
    taps = []
    for index, (axis, column) in enumerate(zip(axes, columns, strict=True)):
        places = op.cast(_places(op, window, index, W, sizes[index]), moves)
        points = op.Add(op.Squeeze(column, [2]), places)
        taps.append(inside(op, linear(op, points), op.dim(X, axis)))
    first = op.Reshape(op.arange(parts), [-1, 1, *[1] * len(axes)])
    samples = weighted(op, pixels(op, images, first, [each.places for each in taps]), taps)
    if mask is not None:
        samples = op.Mul(samples, _shaped(op, op.widened(mask), parts, count, *sizes, [1]))
    return op.Transpose(samples, perm=[0, len(axes) + 2, *range(1, len(axes) + 2)])


def _places(op: Builder, window: Window, index: int, W: ir.Value, size: ir.Value) -> ir.Value:
    """Return s·o + d·k - p along one axis, [kernel, output…]."""
    axes = len(window.axes)
    behind = [1] * (axes - 1 - index)
    steps = op.Mul(op.arange(op.dim(W, 2 + index)), window.dilations[index])
    kernel = op.Expand(op.Reshape(steps, [-1, *behind]), op.Shape(W, start=2))
    starts = op.Mul(op.arange(size), window.strides[index])
    begins = op.Sub(op.Reshape(starts, [-1, *behind]), window.sides[0][index])
    return op.Add(op.Reshape(kernel, [-1, *[1] * axes]), begins)


def _shaped(op: Builder, value: ir.Value, *dims: Operand) -> ir.Value:
    return op.Reshape(value, op.Concat(*dims, axis=0), allowzero=1)
