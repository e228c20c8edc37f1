"""Gradients of powers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.graph.shapes import rank

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
        return (op.Mul(dY, _slope(op, B, known)) if B in op.active else None), None
    zero = op.Equal(B, op.constant(0.0, B.dtype))
    exponent = op.Cast(E, to=int(B.dtype)) if B.dtype and E.dtype != B.dtype else E
    dB = dE = None
    if B in op.active:
        nothing = op.And(zero, op.Equal(exponent, op.constant(0.0, B.dtype)))
        base = op.Where(nothing, op.constant(1.0, B.dtype), B)
        slope = op.Mul(exponent, op.Pow(base, op.Sub(exponent, 1.0)))
        dB = op.unbroadcast(op.Mul(dY, slope), B)
    if E in op.active:
        base = op.Where(zero, op.constant(1.0, B.dtype), B)
        dE = op.unbroadcast(op.Mul(dY, op.Mul(node.outputs[0], op.Log(base))), E)
        dE = op.Cast(dE, to=int(E.dtype)) if E.dtype and E.dtype != B.dtype else dE
    return dB, dE


def _constant(exponent: ir.Value, base: ir.Value) -> float | None:
    """Return the exponent where it is one known number for all elements of the base."""
    tensor = ir.convenience.get_const_tensor(exponent)
    if tensor is None or tensor.size != 1 or exponent.is_graph_input():
        return None
    if len(tensor.shape) > (rank(base) or 0):
        return None
    return float(np.asarray(tensor.numpy(), np.float64).item())


def _slope(op: GradientBuilder, B: ir.Value, exponent: float) -> ir.Value:
    """Return exponent·B^(exponent - 1), a product where that is enough."""
    if exponent == 0:
        return op.zeros_like(B)
    if exponent == 1:
        return op.expand(op.constant(1.0, B.dtype), B)
    power = B if exponent == 2 else op.Pow(B, exponent - 1)
    return op.Mul(power, exponent)
