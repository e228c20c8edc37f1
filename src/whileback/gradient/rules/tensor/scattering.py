"""Gradients of operators that write elements at indices."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required

Triple = tuple[ir.Value | None, None, ir.Value | None]


@dataclass(frozen=True)
class _Places:
    """The places that `ScatterElements` or `ScatterND` writes to."""

    op: GradientBuilder
    indices: ir.Value
    axis: int | None

    def read(self, data: ir.Value) -> ir.Value:
        """Return the elements of the data at the places, in the shape of the updates."""
        if self.axis is None:
            return self.op.GatherND(data, self.indices)
        return self.op.GatherElements(data, self.indices, axis=self.axis)

    def write(self, data: ir.Value, updates: ir.Value, reduction: str = "none") -> ir.Value:
        """Return the data with the updates written to, or combined with, the places."""
        operator = self.op.ScatterND if self.axis is None else self.op.ScatterElements
        return operator(data, self.indices, updates, axis=self.axis, reduction=reduction)


@rule("ScatterElements")
def scatter_elements(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Triple:
    """Y is X with single elements U written at places, see `_scatter`."""
    places = _Places(op, required(node, 1), node.attributes.get_int("axis", 0))
    return _scatter(op, node, places, dY)


@rule("ScatterND")
def scatter_nd(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Triple:
    """Y is X with parts U written at lists of coordinates, see `_scatter`."""
    return _scatter(op, node, _Places(op, required(node, 1), None), dY)


def _scatter(op: GradientBuilder, node: ir.Node, places: _Places, dY: ir.Value) -> Triple:
    """Y is X with U put at the places: dX is dY with zeros there, and dU is dY at the places.

    ONNX leaves open which of two elements stays that are put at one place; both get dY then.
    Where U is added, dX is all of dY; for products and extremes see below.
    """
    X, U = required(node), required(node, 2)
    reduction = node.attributes.get_string("reduction", "none")
    if reduction == "mul":
        dX, dU = _others(op, places, X, U, dY)
        return dX, None, dU
    if reduction in ("max", "min"):
        dX, dU = _winners(op, places, X, U, dY, node.outputs[0])
        return dX, None, dU
    kept = dY if reduction == "add" or X not in op.active else places.write(dY, op.zeros_like(U))
    return kept, None, places.read(dY) if U in op.active else None


def _others(
    op: GradientBuilder, places: _Places, X: ir.Value, U: ir.Value, dY: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Y is the product of all factors at a place: each gets dY times the product of the others.

    That is the product of the factors that are not zero, over the factor itself, and zero where
    one of the others is zero. (A second derivative does not see how zeros meet there.)
    """
    zero, one = op.constant(0, dY.dtype), op.constant(1, dY.dtype)
    number = int(ir.DataType.FLOAT)
    X_is_zero, U_is_zero = op.Equal(X, zero), op.Equal(U, zero)
    safe_X, safe_U = op.Where(X_is_zero, one, X), op.Where(U_is_zero, one, U)
    scaled = op.Mul(dY, places.write(safe_X, safe_U, "mul"))
    X_zeros, U_zeros = op.Cast(X_is_zero, to=number), op.Cast(U_is_zero, to=number)
    zeros = places.write(X_zeros, U_zeros, "add")
    dX = op.Where(op.Equal(zeros, X_zeros), op.Div(scaled, safe_X), zero)
    quotient = op.Div(places.read(scaled), safe_U)
    return dX, op.Where(op.Equal(places.read(zeros), U_zeros), quotient, zero)


def _winners(
    op: GradientBuilder,
    places: _Places,
    X: ir.Value,
    U: ir.Value,
    dY: ir.Value,
    Y: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Y is the largest (or least) element at a place, which gets dY; those that tie share it."""
    zero = op.constant(0, dY.dtype)
    number = int(ir.DataType.FLOAT)
    X_wins, U_wins = op.Equal(X, Y), op.Equal(U, places.read(Y))
    count = places.write(op.Cast(X_wins, to=number), op.Cast(U_wins, to=number), "add")
    share = op.Div(dY, op.CastLike(count, dY))
    return op.Where(X_wins, share, zero), op.Where(U_wins, places.read(share), zero)
