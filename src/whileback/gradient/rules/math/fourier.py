"""Gradients of Fourier transforms: real numbers come in pairs that stand for complex ones."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.definition import by_definition
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.tensor.places import pad_along
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints


@rule("DFT")
def dft(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = F·X or F*·X/N with F[k,j] = exp(-2πi·kj/N), so dX = F*·dY or F·dY/N.

    Where X is real, dX is the real part. Of a one-sided X, what stands for two numbers counts
    twice. The part of X that is cut off gets 0.
    """
    X, axis = required(node), _axis(op, node)
    inverse, onesided = (node.attributes.get_int(n, 0) for n in ("inverse", "onesided"))
    length = optional(node, 1)
    if length is None:
        length = op.Squeeze(_size(op, dY if inverse else X, axis), [0])
    N = op.cast(length, dY)
    if not inverse:
        dX = op.Mul(op.DFT(dY, length, axis, inverse=1), N)
    else:
        dX = op.Div(op.DFT(dY, length, axis, onesided=onesided), N)
        dX = op.Mul(dX, _multiplicity(op, dX, length, axis)) if onesided else dX
    if X.shape is None or X.shape[-1] != 2:
        dX = op.Slice(dX, [0], op.dim(X, -1), [-1])
    return dX if optional(node, 1) is None else _fitted(op, dX, X, axis)


@rule("STFT")
def stft(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Sequence[ir.Value | None]:
    """Y[t] = F·(w∘X[s·t : s·t+n]): the gradients of a product with w, then of a DFT."""
    return by_definition(op, node, dY, _transform_frames)


def _transform_frames(
    op: GradientBuilder,
    node: ir.Node,
    X: ir.Value,
    frame_step: ir.Value,
    window: ir.Value | None = None,
    frame_length: ir.Value | None = None,
) -> ir.Value:
    whole = op.dim(X, 1) if window is None else op.dim(window, 0)
    length = whole if frame_length is None else op.Reshape(frame_length, [1])
    step = op.cast(op.Reshape(frame_step, [1]), ir.DataType.INT64)
    starts = op.Mul(op.arange(op.dim(node.outputs[0], 1)), step)
    within = op.arange(op.cast(length, ir.DataType.INT64))
    frames = op.Gather(X, op.Add(op.Unsqueeze(starts, [1]), within), axis=1)
    if window is not None:
        frames = op.Mul(frames, op.Unsqueeze(window, [1]))
    onesided = node.attributes.get_int("onesided", 1)
    return op.DFT(frames, None, op.constant(2), onesided=onesided)


def _axis(op: Builder, node: ir.Node) -> ir.Value:
    given = optional(node, 2)
    return op.constant(-2, ir.DataType.INT64) if given is None else given


def _size(op: Builder, value: ir.Value, axis: ir.Value) -> ir.Value:
    """Return the length of the value along an axis that only the run may know, INT64[1]."""
    known = known_ints(axis)
    return (
        op.Gather(op.Shape(value), op.Reshape(axis, [1]))
        if known is None
        else op.dim(value, *known)
    )


def _multiplicity(op: Builder, spectrum: ir.Value, length: ir.Value, axis: ir.Value) -> ir.Value:
    """Return 1 for the first number of a one-sided spectrum and one in the middle, else 2."""
    ones = op.Expand(1, op.Shape(spectrum))
    numbers = op.CumSum(ones, axis, exclusive=1)
    middle = op.Equal(op.Mul(numbers, 2), op.cast(length, ir.DataType.INT64))
    single = op.Or(op.Equal(numbers, 0), middle)
    return op.Where(single, op.constant(1, spectrum.dtype), op.constant(2, spectrum.dtype))


def _fitted(op: Builder, dX: ir.Value, X: ir.Value, axis: ir.Value) -> ir.Value:
    """Return dX cut off, or filled up with zeros, to the length of X along the axis."""
    missing = op.Sub(_size(op, X, axis), _size(op, dX, axis))
    pads = op.Concat([0], missing, axis=0)
    return pad_along(op, dX, pads, known_ints(axis) or op.Reshape(axis, [1]))
