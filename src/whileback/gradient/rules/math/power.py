"""Gradients of powers."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import times
from whileback.gradient.rules.inputs import required
from whileback.graph.constants import known_floats
from whileback.graph.shapes import rank, size

Pair = tuple[ir.Value | None, ir.Value | None]


@rule("Pow")
def power(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Pair:
    """Y = B^E, so dB = dY·E·B^(E-1) and dE = dY·Y·log(B), each summed back to its own shape.

    At B = 0 they are what they are for B towards 0, and 0 for E = 0: no 0·∞ becomes NaN. At B < 0
    dE is NaN, since no exponent nearby gives a number.
    """
    B, E = required(node, 0), required(node, 1)
    known = None if E in op.active else _constant(E, B)
    if known is not None:
        return times(op, node, dY, _slope(op, B, known)), None
    exponent, zero = op.cast(E, B), op.Equal(B, op.constant(0.0, B.dtype))
    dB = dE = None
    if B in op.active:
        settled = op.And(zero, op.Equal(exponent, op.constant(0.0, B.dtype)))
        power = op.Pow(op.Where(settled, 1.0, B), op.Sub(exponent, 1.0))
        slope = op.Mul(exponent, power)
        dB = op.unbroadcast(times(op, node, dY, slope), B)
    if E in op.active:
        slope = op.Mul(node.outputs[0], op.Log(op.Where(zero, 1.0, B)))
        dE = op.cast(op.unbroadcast(times(op, node, dY, slope), E), E)
    return dB, dE


def _constant(exponent: ir.Value, base: ir.Value) -> float | None:
    """Return the exponent where it is one known number for all elements of the base."""
    if size(exponent) != 1 or (rank(exponent) or 0) > (rank(base) or 0):
        return None
    known = known_floats(exponent)
    return None if known is None else known[0]


def _slope(op: GradientBuilder, B: ir.Value, exponent: float) -> ir.Value:
    """Return exponent·B^(exponent - 1), a product where that is enough."""
    if exponent == 0:
        return op.zeros_like(B)
    if exponent == 1:
        return op.expand(op.constant(1.0, B.dtype), B)
    power = B if exponent == 2 else op.Pow(B, exponent - 1)
    return op.Mul(power, exponent)
