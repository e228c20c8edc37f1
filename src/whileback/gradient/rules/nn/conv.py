"""Gradients of convolutions and transposed convolutions.

The two are each other's transpose: the gradient of one with respect to its data is the other with
the same weight. The gradient with respect to the weight is a convolution as well, of the side that
the window slides over with the other side, with batch and channels swapped, strides and dilations
swapped.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.nn.windows import (
    Window,
    input_window,
    known_dims,
    output_window,
    pads_at_run_time,
)

Gradients = tuple[ir.Value | None, ...]


@rule("Conv")
def conv(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Gradients:
    """Y[n,m,o] = Σ W[m,c,k]·X[n,c,s·o+d·k-p], so dX spreads dY by W, ΔW pairs X with dY."""
    X, W = _data_and_weight(node)
    window = input_window(node)
    padded, begins = X, None
    if window.pads is None:
        spare = op.Mod(op.Sub(_sizes(op, X, window), 1), list(window.strides))
        totals = op.Max(op.Sub(_span(op, W, window), spare), 0)
        begins, ends = pads_at_run_time(op, node, totals)
        padded = _pad(op, X, begins, ends, window) if W in op.active else X
    dX = _spread(op, node, dY, W, X, window, begins) if X in op.active else None
    dW = _pair(op, node, padded, dY, W, window) if W in op.active else None
    return (dX, dW, _bias(op, node, dY, window))[: len(node.inputs)]


@rule("ConvTranspose")
def conv_transpose(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Gradients:
    """Y[n,m,s·i+d·k-p] = Σ W[c,m,k]·X[n,c,i], so dX = Conv(dY, W), ΔW pairs dY with X."""
    X, W = _data_and_weight(node)
    window = output_window(node)
    dB = _bias(op, node, dY, window)
    if window.pads is None:
        rows = op.Mul(op.Sub(_sizes(op, X, window), 1), list(window.strides))
        size = op.Add(op.Add(rows, _span(op, W, window)), [1 + (r or 0) for r in window.rest])
        totals = op.Sub(size, _sizes(op, dY, window))
        dY = _pad(op, dY, *pads_at_run_time(op, node, totals), window)
    dX = op.Conv(dY, W, **_attributes(node, window)) if X in op.active else None
    dW = _pair(op, node, dY, X, W, window) if W in op.active else None
    return (dX, dW, dB)[: len(node.inputs)]


def _data_and_weight(node: ir.Node) -> tuple[ir.Value, ir.Value]:
    X, W = node.inputs[:2]
    assert X is not None and W is not None
    return X, W


def _bias(op: GradientBuilder, node: ir.Node, dY: ir.Value, window: Window) -> ir.Value | None:
    """Sum over all but the channels."""
    B = node.inputs[2] if len(node.inputs) > 2 else None
    return op.ReduceSum(dY, [0, *window.axes], keepdims=0) if B in op.active else None


def _spread(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value,
    W: ir.Value,
    X: ir.Value,
    window: Window,
    begins: ir.Value | None,
) -> ir.Value:
    """Add W·dY[o] to window o of zeros of the shape of X, for every o.

    Where the size of X is not known, as much is made as X can have, and cropped.
    """
    known = zip(window.rest, window.strides, strict=True)
    rest = [stride - 1 if each is None else each for each, stride in known]
    attributes = _attributes(node, window) | {"output_padding": rest if any(rest) else None}
    dX = op.ConvTranspose(dY, W, **attributes)
    if None not in window.rest and begins is None:
        return dX
    sizes = _sizes(op, X, window)
    starts = begins if begins is not None else [0] * len(rest)
    ends = sizes if begins is None else op.Add(begins, sizes)
    return op.Slice(dX, starts, ends, window.axes)


def _pair(
    op: GradientBuilder, node: ir.Node, X: ir.Value, dY: ir.Value, W: ir.Value, window: Window
) -> ir.Value:
    """Return Σ X[n,c,s·o+d·k-p]·dY[n,m,o] over n and o, which has the shape of W[m,c,k]."""
    group = node.attributes.get_int("group", 1)
    swap = [1, 0, *window.axes]
    data = op.Transpose(X, perm=swap) if group == 1 else _swap_groups(op, X, W, window, group)
    exchanged = {"strides": window.dilations, "dilations": window.strides}
    attributes = _attributes(node, window) | exchanged
    dW = op.Transpose(op.Conv(data, op.Transpose(dY, perm=swap), **attributes), perm=swap)
    if all(r is not None and r < d for r, d in zip(window.rest, window.dilations, strict=True)):
        return dW
    return op.Slice(dW, [0] * len(window.axes), _sizes(op, W, window), window.axes)


def _swap_groups(
    op: GradientBuilder, X: ir.Value, W: ir.Value, window: Window, group: int
) -> ir.Value:
    """Turn [n, group·c, …] into [c, group·n, …]."""
    batch, channels = op.dim(X, 0), op.dim(W, 1)
    grouped = op.Reshape(X, op.Concat(batch, [group], channels, [-1], axis=0))
    swapped = op.Transpose(grouped, perm=[2, 1, 0, 3])
    return op.Reshape(swapped, op.Concat(channels, [-1], _sizes(op, X, window), axis=0))


def _attributes(node: ir.Node, window: Window) -> dict[str, Any]:
    return {
        "group": node.attributes.get_int("group", 1),
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads or [0] * (2 * len(window.axes)),
    }


def _pad(
    op: GradientBuilder, X: ir.Value, begins: ir.Value, ends: ir.Value, window: Window
) -> ir.Value:
    return op.Pad(X, op.Concat(begins, ends, axis=0), None, window.axes)


def _sizes(op: GradientBuilder, value: ir.Value, window: Window) -> ir.Value:
    """Return the sizes of the spatial axes: a constant where they are known."""
    known = known_dims(value, len(window.axes))
    return op.Shape(value, start=2) if None in known else op.value(list(known))


def _span(op: GradientBuilder, W: ir.Value, window: Window) -> ir.Value:
    """Return the distance between the first and the last element that a window reads."""
    return op.Mul(op.Sub(_sizes(op, W, window), 1), list(window.dilations))
