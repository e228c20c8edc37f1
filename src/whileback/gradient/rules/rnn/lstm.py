"""The gradient of LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.rnn.direction import (
    Direction,
    Gate,
    Gradients,
    Input,
    Values,
    shifted,
)
from whileback.gradient.rules.rnn.layer import layer_gradients

__all__ = ["lstm"]


@rule("LSTM")
def lstm(
    op: GradientBuilder,
    node: ir.Node,
    dY: ir.Value | None = None,
    dY_h: ir.Value | None = None,
    dY_c: ir.Value | None = None,
) -> Sequence[ir.Value | None]:
    """c = f·c' + i·g and h = o·tanh(c) from the sums z = X·Wᵀ + h'·Rᵀ + b, c' and h' being before.

    So dc += dh·o·(1 - tanh²(c)), dz = (dc·g, dh·tanh(c), dc·c', dc·i) times the gates' slopes,
    dh' = dz·R and dc' = dc·f. Peepholes P add P·c' to the sums of i and f, and P·c to that of o.
    """
    return layer_gradients(op, node, 4, _backward, [dY, dY_h, dY_c])


@dataclass(frozen=True)
class _Cells:
    """What a step reads and computes, for all steps at once; each [T,B,H]."""

    found: ir.Value
    left: ir.Value
    i: Gate
    o: Gate
    f: Gate
    g: Gate
    h: Gate


def _cells(d: Direction, peepholes: Values) -> _Cells:
    """Compute the forward pass again: all gates at once, then the cells from step to step."""
    op = d.op
    f, g, h = d.activations
    sums = d.product(d.found, d.R, d.product(d.X, d.W, op.add(*d.biases)))
    zi, zo, zf, zg = d.split(d.stack(sums, 4), 4, axis=2)
    candidate = d.gate(zg, g)
    if peepholes:
        Pi, Po, Pf = peepholes
        found = _cells_found(d, zi, zf, candidate.value, Pi, Pf)
        i = d.gate(op.Add(zi, op.Mul(found, Pi)), f)
        forget = _forget(d, op.Add(zf, op.Mul(found, Pf)), i)
        left = op.Add(op.Mul(forget.value, found), op.Mul(i.value, candidate.value))
        o = d.gate(op.Add(zo, op.Mul(left, Po)), f)
    else:
        i, o = d.gate(zi, f), d.gate(zo, f)
        forget = _forget(d, zf, i)
        left = _cells_left(d, forget.value, op.Mul(i.value, candidate.value))
        found = shifted(op, left, d.c, d.reverse)
    return _Cells(found, left, i, o, forget, candidate, Gate.of(op, left, h))


def _forget(d: Direction, z: ir.Value, i: Gate) -> Gate:
    """Return the forget gate; `input_forget` makes it 1 - i, whatever its own sum is."""
    if not d.node.attributes.get_int("input_forget", 0):
        return d.gate(z, d.activations[0])
    return Gate(d.op.Sub(1.0, i.value), d.op.zeros_like(z))


def _cells_left(d: Direction, forget: ir.Value, added: ir.Value) -> ir.Value:
    """Return c = f·c' + i·g of all steps."""
    added = d.where_valid(added)

    def step(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
        kept = op.Mul(states[0], rows[0])
        return [op.Add(kept, rows[1])], [kept]

    stacks = [d.where_valid(forget, 1.0), added]
    _, (kept,) = d.scan(step, [d.c], stacks, from_end=d.reverse)
    # Adding once more, for all steps at once, spares the body a node that copies the cells.
    return d.op.Add(kept, added)


def _cells_found(
    d: Direction, zi: ir.Value, zf: ir.Value, candidate: ir.Value, Pi: ir.Value, Pf: ir.Value
) -> ir.Value:
    """Return c' of all steps where the gates depend on it."""
    coupled = d.node.attributes.get_int("input_forget", 0)

    def step(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
        c = states[0]
        i = d.activate(op, op.Add(rows[0], op.Mul(c, Pi)), d.activations[0])
        if coupled:
            f = op.Sub(1.0, i)
        else:
            f = d.activate(op, op.Add(rows[1], op.Mul(c, Pf)), d.activations[0])
        after = op.Add(op.Mul(f, c), op.Mul(i, rows[2]))
        return [after if d.valid is None else op.Where(rows[3], after, c)], [c]

    stacks = [zi, zf, candidate, *([] if d.valid is None else [d.valid])]
    _, (found,) = d.scan(step, [d.c], stacks, from_end=d.reverse)
    return found


def _backward(d: Direction) -> Gradients:
    """Return the gradients of one direction."""
    op = d.op
    peepholes = () if d.P is None else d.split(d.P, 3, axis=0)
    cells = _cells(d, peepholes)
    keep, leave, slopes = _slopes(d, cells, peepholes)

    def step(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
        (dh, dc), (keep_t, leave_t, slope) = states, rows
        dc = op.Add(dc, op.Mul(dh, leave_t))
        dz = op.Mul(op.Concat(dc, dh, dc, dc, axis=1), slope)
        return [op.MatMul(dz, d.R), op.Mul(dc, keep_t)], [dz]

    (dh, dc), (dz,) = d.scan_back(step, [d.dh, d.dc], [keep, leave, slopes])

    def dP() -> ir.Value:
        di, do, df, _ = d.split(dz, 4, axis=2)
        terms = (op.Mul(di, cells.found), op.Mul(do, cells.left), op.Mul(df, cells.found))
        return op.Concat(*(op.ReduceSum(each, [0, 1], keepdims=0) for each in terms), axis=0)

    return d.gradients(dh, dz) | {Input.INITIAL_C: lambda: dc, Input.P: dP}


def _slopes(d: Direction, cells: _Cells, peepholes: Values) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return what dc' is in dc, what dc is in dh, and dz in dc; for the output gate, in dh."""
    op = d.op
    swing = cells.g.value
    if d.node.attributes.get_int("input_forget", 0):
        swing = op.Sub(swing, cells.found)
    si = op.Mul(swing, cells.i.slope)
    so = op.Mul(cells.h.value, cells.o.slope)
    sf = op.Mul(cells.found, cells.f.slope)
    sg = op.Mul(cells.i.value, cells.g.slope)
    keep = cells.f.value
    leave = op.Mul(cells.o.value, cells.h.slope)
    if peepholes:
        Pi, Po, Pf = peepholes
        keep = op.Add(keep, op.Add(op.Mul(si, Pi), op.Mul(sf, Pf)))
        leave = op.Add(leave, op.Mul(so, Po))
    slopes = d.where_valid(op.Concat(si, so, sf, sg, axis=2))
    return d.where_valid(keep, 1.0), d.where_valid(leave), slopes
