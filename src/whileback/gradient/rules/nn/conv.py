"""Gradients of convolutions and transposed convolutions.

The two are each other's transpose: the gradient of one with respect to its data is the other with
the same weight. The gradient with respect to the weight is a convolution as well, of what the
window slides over with the other side, strides and dilations exchanged. It sums over the batch,
so that takes the place of the channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.nn.windows import (
    Pads,
    Window,
    input_pads,
    input_window,
    output_pads,
    output_window,
    sizes,
)
from whileback.gradient.rules.tensor.places import pad_along

Gradients = tuple[ir.Value | None, ir.Value | None, ir.Value | None]


@rule("Conv")
def conv(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Gradients:
    """Y[n,m,o] = Σ W[m,c,k]·X[n,c,s·o+d·k-p], so dX spreads dY by W, dW pairs X with dY."""
    X, W = required(node), required(node, 1)
    window = input_window(node)
    group = node.attributes.get_int("group", 1)
    pads = input_pads(op, node, window) if window.pads is None else None
    dX = dW = None
    if X in op.active:
        dX = spread(op, dY, W, X, window, group, None if pads is None else pads[0])
    if W in op.active:
        padded = X if pads is None else _pad(op, X, pads, window)
        dW = _pair(op, padded, dY, W, window, group)
    return dX, dW, _bias(op, node, dY, window)


@rule("ConvTranspose")
def conv_transpose(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Gradients:
    """Y[n,m,s·i+d·k-p] = Σ W[c,m,k]·X[n,c,i], so dX = Conv(dY, W), dW pairs dY with X."""
    X, W = required(node), required(node, 1)
    window = output_window(node)
    group = node.attributes.get_int("group", 1)
    dB = _bias(op, node, dY, window)
    if window.pads is None:
        dY = _pad(op, dY, output_pads(op, node, window), window)
    dX = op.Conv(dY, W, **_attributes(window, group)) if X in op.active else None
    dW = _pair(op, dY, X, W, window, group) if W in op.active else None
    return dX, dW, dB


def spread(
    op: GradientBuilder,
    dY: ir.Value,
    W: ir.Value,
    X: ir.Value,
    window: Window,
    group: int = 1,
    begins: ir.Value | None = None,
) -> ir.Value:
    """Add W·dY[o] to window o of zeros, for every o: the gradient of X as far as windows reach.

    Where the size of X is not known, as much is made as X can have, and cropped; `begins` are the
    pads at the begins where the window does not know them.
    """
    known = zip(window.rest, window.strides, strict=True)
    rest = [stride - 1 if each is None else each for each, stride in known]
    attributes = _attributes(window, group) | {"output_padding": rest if any(rest) else None}
    dX = op.ConvTranspose(dY, W, **attributes)
    if None not in window.rest and begins is None:
        return dX
    ends = sizes(op, X, window)
    if begins is None:
        return op.Slice(dX, [0] * len(rest), ends, window.axes)
    return op.Slice(dX, begins, op.Add(begins, ends), window.axes)


def _pair(
    op: GradientBuilder, X: ir.Value, dY: ir.Value, W: ir.Value, window: Window, group: int
) -> ir.Value:
    """Return Σ X[n,c,s·o+d·k-p]·dY[n,m,o] over n and o, which has the shape of W[m,c,k].

    The channels c are one more axis to slide over: ONNX Runtime makes a single large product of
    that. It is slow beyond three axes, so there they are the batch.
    """
    X, window = _without_rest(op, X, window)
    data = X if group == 1 else _by_group(op, X, W, window, group)
    swap = [1, 0, *window.axes]
    kernel = op.Transpose(dY, perm=swap)
    if len(window.axes) < 3:
        data, kernel = op.Unsqueeze(data, [0]), op.Unsqueeze(kernel, [2])
        dW = op.Squeeze(op.Conv(data, kernel, **_exchanged(window, group, 1)), [0])
    else:
        data = op.Transpose(data, perm=swap)
        dW = op.Transpose(op.Conv(data, kernel, **_exchanged(window, group, 0)), perm=swap)
    if all(r is not None and r < d for r, d in zip(window.rest, window.dilations, strict=True)):
        return dW
    return op.Slice(dW, [0] * len(window.axes), sizes(op, W, window), window.axes)


def _without_rest(op: GradientBuilder, X: ir.Value, window: Window) -> tuple[ir.Value, Window]:
    """Leave out what no window reaches, where that is known, and not the pads before that.

    A product that is cut down afterwards has a gradient that is padded first, which ONNX Runtime
    1.32 takes for the padding of a convolution that reads it as its weight.
    """
    begins, ends = window.sides
    rest = [0 if each is None else each for each in window.rest]
    cut = [max(each - end, 0) for each, end in zip(rest, ends, strict=True)]
    pads = [max(end - each, 0) for each, end in zip(rest, ends, strict=True)]
    left = tuple(None if each is None else 0 for each in window.rest)
    if any(cut):
        along = [axis for axis, each in zip(window.axes, cut, strict=True) if each]
        X = op.Slice(X, [0] * len(along), [-each for each in cut if each], along)
    known = None if window.pads is None else (*begins, *pads)
    return X, replace(window, pads=known, rest=left)


def _by_group(
    op: GradientBuilder, X: ir.Value, W: ir.Value, window: Window, group: int
) -> ir.Value:
    """Turn [n, group·c, …] into [group·n, c, …]."""
    shape, channels = sizes(op, X, window), op.dim(W, 1)
    grouped = op.Reshape(X, op.Concat(op.dim(X, 0), [group], channels, shape, axis=0))
    swapped = op.Transpose(grouped, perm=[1, 0, 2, *(axis + 1 for axis in window.axes)])
    return op.Reshape(swapped, op.Concat([-1], channels, shape, axis=0))


def _exchanged(window: Window, group: int, more: int) -> dict[str, Any]:
    """Return the attributes of a convolution over `more` axes in front, strides exchanged."""
    begins, ends = window.sides
    ones, zeros = [1] * more, [0] * more
    return {
        "group": group,
        "strides": [*ones, *window.dilations],
        "dilations": [*ones, *window.strides],
        "pads": [*zeros, *begins, *zeros, *ends],
    }


def _bias(op: GradientBuilder, node: ir.Node, dY: ir.Value, window: Window) -> ir.Value | None:
    """Sum over all but the channels."""
    B = optional(node, 2)
    return op.ReduceSum(dY, [0, *window.axes], keepdims=0) if B in op.active else None


def _attributes(window: Window, group: int) -> dict[str, Any]:
    return {
        "group": group,
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": [*window.sides[0], *window.sides[1]],
    }


def _pad(op: GradientBuilder, X: ir.Value, pads: Pads, window: Window) -> ir.Value:
    return pad_along(op, X, op.Concat(*pads, axis=0), window.axes)
