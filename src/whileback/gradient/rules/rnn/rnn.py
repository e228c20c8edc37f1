"""The gradient of RNN."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.rnn.direction import Direction, Gradients, Values
from whileback.gradient.rules.rnn.layer import layer_gradients
from whileback.graph.shapes import HALVES

__all__ = ["rnn"]


@rule("RNN")
def rnn(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value | None = None,
    dY_h: ir.Value | None = None,
) -> Sequence[ir.Value | None]:
    """h = tanh(z) of z = X·Wᵀ + h'·Rᵀ + b, h' being before; so dz = dh·(1 - h²) and dh' = dz·R."""
    return layer_gradients(op, node, 1, _backward, [dY, dY_h])


def _backward(d: Direction) -> Gradients:
    """Return the gradients of one direction."""

    def step(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
        dz = op.Mul(states[0], rows[0])
        return [op.MatMul(dz, d.R)], [dz]

    (dh,), (dz,) = d.scan_back(step, [d.dh], [_slope(d)])
    return d.gradients(dh, dz)


def _slope(d: Direction) -> ir.Value:
    """Return the slopes of the activation function at all steps, from its values if they tell.

    Of 16 bits, those near saturation do not.
    """
    (f,) = d.activations
    if not d.clip and not f.slope_needs_argument and d.Y.dtype not in HALVES:
        return d.where_valid(f.slope(d.op, d.Y, d.Y))
    sums = d.product(d.found, d.R, d.product(d.X, d.W, d.op.add(*d.biases)))
    return d.where_valid(d.gate(d.stack(sums, 1), f).slope)
