"""What normalizations have in common: data made standard, and sums over all but the channels."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.graph.builder import Operand
from whileback.graph.shapes import rank

__all__ = [
    "Standard",
    "epsilon_of",
    "other_axes",
    "per_channel",
    "ranked",
    "standardize",
    "sum_per_channel",
]


class Standard(NamedTuple):
    """Data made standard over axes: Z = (X - mean)·r, where r = 1/√(variance + ε)."""

    centred: ir.Value
    Z: ir.Value
    r: ir.Value
    axes: Operand

    def gradient(self, op: GradientBuilder, dZ: ir.Value) -> ir.Value:
        """Return dX = r·(dZ - mean(dZ) - Z·mean(dZ·Z))."""
        along = op.Mul(self.Z, op.ReduceMean(op.Mul(dZ, self.Z), self.axes))
        return op.Mul(self.r, op.Sub(op.Sub(dZ, op.ReduceMean(dZ, self.axes)), along))

    def mean_gradient(self, op: GradientBuilder, dMean: ir.Value) -> ir.Value:
        """Return what X gets from means of n elements: dMean/n."""
        count = op.Div(op.Size(self.Z), op.Max(op.Size(self.r), 1))
        return op.expand(op.Div(dMean, op.cast(op.Max(count, 1), self.Z)), self.Z)

    def r_gradient(self, op: GradientBuilder, dr: ir.Value) -> ir.Value:
        """Return what X gets from r, which is -dr·r²·Z/n."""
        squared = op.Mul(self.r, self.r)
        return self.mean_gradient(op, op.Neg(op.Mul(op.Mul(dr, squared), self.Z)))


def standardize(op: GradientBuilder, X: ir.Value, axes: Operand, epsilon: float) -> Standard:
    """Emit what a normalization makes of its data before scale and bias."""
    centred = op.Sub(X, op.ReduceMean(X, axes))
    variance = op.ReduceMean(op.Mul(centred, centred), axes)
    r = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    return Standard(centred, op.Mul(centred, r), r, axes)


def epsilon_of(node: ir.Node) -> float:
    """Return what the node adds to a variance."""
    return node.attributes.get_float("epsilon", 1e-5)


def ranked(op: GradientBuilder, *data: ir.Value) -> list[ir.Value]:
    """Return data of one shape [N, C, …] as it is, or as [N, C, size] if a rank is not known."""
    if all(rank(value) is not None for value in data):
        return list(data)
    dims = ir.Shape([op.shapes.new_dim() for _ in range(3)])
    return [_flat(op, value, dims) for value in data]


def _flat(op: GradientBuilder, value: ir.Value, dims: ir.Shape) -> ir.Value:
    sizes = op.dim(value, 0), op.dim(value, 1), op.ReduceProd(op.Shape(value, start=2))
    flat = op.Reshape(value, op.Concat(*sizes, axis=0), allowzero=1)
    flat.shape = dims
    return flat


def other_axes(data: ir.Value) -> list[int]:
    """Return the axes of ranked data other than the channels."""
    assert data.shape is not None, data
    return [axis for axis in range(len(data.shape)) if axis != 1]


def per_channel(op: GradientBuilder, value: ir.Value, data: ir.Value) -> ir.Value:
    """Return a value of shape [C] so that it broadcasts to ranked data, in the type of that."""
    axes = [axis - 1 for axis in other_axes(data) if axis]
    return op.Unsqueeze(op.cast(value, data), axes) if axes else op.cast(value, data)


def sum_per_channel(op: GradientBuilder, value: ir.Value, data: ir.Value) -> ir.Value:
    """Sum a value of the shape of ranked data over all but the channels, to shape [C].

    Data that is nothing but a batch has one channel.
    """
    return op.ReduceSum(value, other_axes(data), keepdims=int(rank(data) == 1))
