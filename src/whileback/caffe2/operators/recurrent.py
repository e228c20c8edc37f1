"""Cells of recurrent networks: one step of LSTMUnit and of GRUUnit.

They take the sums of the gates, of shape [1, N, k·D], and keep a sequence of the batch as it is
from its length on, or zero with `drop_states`.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


def _running(op: Emitter, node: Operator, at: int) -> ir.Value | None:
    """Return which sequences go on, timestep < length; None if none has a length.

    Inputs `at` and `at + 1` are the lengths and the timestep, or the timestep alone.
    """
    if not node.args.bool("sequence_lengths", True):
        return None
    lengths, timestep = node.tensors(at + 2)[at:]
    return op.Unsqueeze(op.Less(timestep, lengths), [-1])


def _masked(
    op: Emitter, node: Operator, running: ir.Value | None, new: ir.Value, old: ir.Value
) -> ir.Value:
    """Return the new state of sequences that go on; of the others the old one, or zeros."""
    if running is None:
        return new
    dropped = node.args.bool("drop_states", False)
    return op.Where(running, new, op.constant(0, new.dtype) if dropped else old)


def _lstm(
    op: Emitter, node: Operator, running: ir.Value | None, H: ir.Value, C: ir.Value, G: ir.Value
) -> list[ir.Value]:
    i, f, o, g = op.emit("Split", [G], {"axis": -1, "num_outputs": 4}, outputs=4)
    kept = op.Mul(op.Sigmoid(op.Add(f, node.args.float("forget_bias", 0.0))), C)
    cell = op.Add(kept, op.Mul(op.Sigmoid(i), op.Tanh(g)))
    hidden = op.Mul(op.Sigmoid(o), op.Tanh(cell))
    return [_masked(op, node, running, hidden, H), _masked(op, node, running, cell, C)]


@lowering("LSTMUnit")
def lstm_unit(op: Emitter, node: Operator) -> list[ir.Value]:
    """C ← σ(f + forget_bias)·C + σ(i)·tanh g, H ← σ(o)·tanh C, for the gates i, f, o, g."""
    H, C, G = node.tensors(3)
    return _lstm(op, node, _running(op, node, 3), H, C, G)


@lowering("LSTMUnitGradient")
def lstm_unit_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of H, C and the gates, from those of the new H and C, the last two inputs."""
    H, C, G = node.tensors(3)
    running = _running(op, node, 3)
    return op.pullback(
        lambda op, H, C, G: _lstm(op, node, running, H, C, G), [H, C, G], node.inputs[-2:]
    )


@gradient_operator("LSTMUnit")
def lstm_unit_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> list[str | None]:
    """dH, dC, dG = LSTMUnitGradient(H, C, G, [lengths,] timestep, H', C', dH', dC')."""
    return _maker(grad, op, dys, states=2)


def _maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None], states: int
) -> list[str | None]:
    known = [
        grad.zeros_like(new) if dy is None else dy for new, dy in zip(op.output, dys, strict=True)
    ]
    read = states + (3 if Arguments(op).bool("sequence_lengths", True) else 2)
    found = grad.emit(
        f"{op.type}Gradient",
        [*op.input[:read], *op.output, *known],
        of=op.input[: states + 1],
        like=op,
    )
    return [*found, *[None] * (len(op.input) - len(found))]


def _gru(
    op: Emitter, node: Operator, running: ir.Value | None, H: ir.Value, G: ir.Value
) -> ir.Value:
    _, z, o = op.emit("Split", [G], {"axis": -1, "num_outputs": 3}, outputs=3)
    update = op.Sigmoid(z)
    hidden = op.Add(op.Mul(update, H), op.Mul(op.Sub(1.0, update), op.Tanh(o)))
    return _masked(op, node, running, hidden, H)


@lowering("GRUUnit")
def gru_unit(op: Emitter, node: Operator) -> ir.Value:
    """H ← σ(z)·H + (1 - σ(z))·tanh o, for the gates r, z, o; r is no part of it."""
    H, G = node.tensors(2)
    return _gru(op, node, _running(op, node, 2), H, G)


@lowering("GRUUnitGradient")
def gru_unit_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of H and the gates, from that of the new H, the last input."""
    H, G = node.tensors(2)
    running = _running(op, node, 2)
    return op.pullback(lambda op, H, G: _gru(op, node, running, H, G), [H, G], node.inputs[-1:])


@gradient_operator("GRUUnit")
def gru_unit_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> list[str | None]:
    """dH, dG = GRUUnitGradient(H, G, [lengths,] timestep, H', dH')."""
    return _maker(grad, op, dys, states=1)
