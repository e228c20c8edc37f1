"""The gradient of GRU."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.rnn.direction import Direction, Gradients, Input, Values
from whileback.gradient.rules.rnn.layer import layer_gradients

__all__ = ["gru"]


@rule("GRU")
def gru(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value | None = None,
    dY_h: ir.Value | None = None,
) -> Sequence[ir.Value | None]:
    """h = (1 - z)·n + z·h', h' being before, so dz = dh·(h' - n), dn = dh·(1 - z), dh' = dh·z + …

    n = tanh(X·Wᵀ + b + (r·h')·Rᵀ), or r·(h'·Rᵀ + b) in it with `linear_before_reset`.
    """
    linear = node.attributes.get_int("linear_before_reset", 0)
    backward = _backward_linear if linear else _backward
    return layer_gradients(op, node, 3, backward, [dY, dY_h])


def _backward(d: Direction) -> Gradients:
    """Return the gradients of one direction whose reset gates act on the state: dr = d(r·h')·h'."""
    op, sizes = d.op, [2 * d.hidden, d.hidden]
    f, g = d.activations
    bias = op.add(*d.biases)
    inputs = d.product(d.X, d.W, bias)
    x_zr, x_n = op.emit("Split", [inputs, sizes], {"axis": 1}, outputs=2)
    R_zr, R_n = op.emit("Split", [d.R, sizes], {"axis": 0}, outputs=2)
    sums = d.stack(d.product(d.found, R_zr, x_zr), 2)
    z, r = (d.gate(each, f) for each in d.split(sums, 2, axis=2))
    reset = op.Mul(r.value, d.found)
    n = d.gate(d.stack(d.product(reset, R_n, x_n), 1), g)
    slope_n = d.where_valid(op.Mul(op.Sub(1.0, z.value), n.slope))
    slope_z = op.Mul(op.Sub(d.found, n.value), z.slope)
    slopes = d.where_valid(op.Concat(slope_z, op.Mul(d.found, r.slope), axis=2))

    def step(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
        (dh,), (slope, slope_zr, keep, r_t) = states, rows
        dn = op.Mul(dh, slope)
        dreset = op.MatMul(dn, R_n)
        dzr = op.Mul(op.Concat(dh, dreset, axis=1), slope_zr)
        kept = op.Gemm(dzr, R_zr, op.Mul(dh, keep))
        return [op.Add(kept, op.Mul(dreset, r_t))], [dzr, dn]

    (dh,), (dzr, dn) = d.scan_back(step, [d.dh], [slope_n, slopes, z.value, r.value])

    def dR() -> ir.Value:
        pairs = ((dzr, d.found), (dn, reset))
        return op.Concat(*(op.Gemm(d.flat(a), d.flat(b), transA=1) for a, b in pairs), axis=0)

    return d.gradients(dh, op.Concat(dzr, dn, axis=2)) | {Input.R: dR}


def _backward_linear(d: Direction) -> Gradients:
    """Return the gradients of one direction whose reset gates act on q = h'·Rᵀ + b: dr = dn·q."""
    op = d.op
    f, g = d.activations
    W_bias, R_bias = d.biases or (None, None)
    x_z, x_r, x_n = d.split(d.stack(d.product(d.X, d.W, W_bias), 3), 3, axis=2)
    h_z, h_r, q = d.split(d.stack(d.product(d.found, d.R, R_bias), 3), 3, axis=2)
    z, r = d.gate(op.Add(x_z, h_z), f), d.gate(op.Add(x_r, h_r), f)
    n = d.gate(op.Add(x_n, op.Mul(r.value, q)), g)
    slope_z = op.Mul(op.Sub(d.found, n.value), z.slope)
    slope_n = op.Mul(op.Sub(1.0, z.value), n.slope)
    slope_r = op.Mul(slope_n, op.Mul(q, r.slope))
    of_inputs = d.where_valid(op.Concat(slope_z, slope_r, slope_n, axis=2))
    slope_q = op.Mul(slope_n, r.value)
    of_states = d.where_valid(op.Concat(slope_z, slope_r, slope_q, axis=2))

    def step(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
        (dh,), (slope, keep) = states, rows
        dz = op.Mul(op.Concat(dh, dh, dh, axis=1), slope)
        return [op.Gemm(dz, d.R, op.Mul(dh, keep))], [dh]

    (dh,), (dhs,) = d.scan_back(step, [d.dh], [of_states, z.value])
    each = op.Concat(dhs, dhs, dhs, axis=2)
    return d.gradients(dh, op.Mul(each, of_inputs), op.Mul(each, of_states))
