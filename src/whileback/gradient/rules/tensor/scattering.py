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
        dX, dU = _others(op, places, X, U, dY, node.outputs[0])
        return dX, None, dU
    if reduction in ("max", "min"):
        dX, dU = _winners(op, places, X, U, dY, node.outputs[0])
        return dX, None, dU
    kept = dY if reduction == "add" or X not in op.active else places.write(dY, op.zeros_like(U))
    return kept, None, places.read(dY) if U in op.active else None


def _others(
    op: GradientBuilder,
    places: _Places,
    X: ir.Value,
    U: ir.Value,
    dY: ir.Value,
    Y: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Y is the product of all factors at a place: each gets dY times the product of the others.

    With the product P of those that are not zero, that is Y/factor, for the only zero P, and for
    one of two zeros P times the other one, so that its own gradient is exact as well. Third
    derivatives miss triples of zeros at one place.
    """
    zero, one = op.constant(0, dY.dtype), op.constant(1, dY.dtype)
    masks = [op.Equal(factor, zero) for factor in (X, U)]
    others = [op.Where(mask, one, each) for mask, each in zip(masks, (X, U), strict=True)]
    zeros = [op.Where(mask, each, zero) for mask, each in zip(masks, (X, U), strict=True)]
    counted = [op.cast(mask, ir.DataType.FLOAT) for mask in masks]
    P = places.write(others[0], others[1], "mul")
    Z = places.write(zeros[0], zeros[1], "add")
    count = places.write(counted[0], counted[1], "add")

    def slope(factor: ir.Value, which: int, *at: ir.Value) -> ir.Value:
        Y, P, Z, count = at
        pair = op.Where(op.Equal(count, 2.0), op.Mul(P, op.Sub(Z, factor)), zero)
        rest = op.Where(op.Equal(count, 1.0), P, pair)
        return op.Where(masks[which], rest, op.Div(Y, others[which]))

    dX = op.Mul(dY, slope(X, 0, Y, P, Z, count))
    return dX, op.Mul(places.read(dY), slope(U, 1, *map(places.read, (Y, P, Z, count))))


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
