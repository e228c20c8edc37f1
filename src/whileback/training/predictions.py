"""What a loss reads of an output: logits or probabilities, told apart by what makes the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.names import label
from whileback.training.makers import OVER_CLASSES, Maker, maker_of, unmoved

__all__ = ["Prediction", "Reads", "prediction"]

Reads = Literal["logits", "binary logits", "log-probabilities", "values"]

_FITTING: dict[Reads, tuple[str, ...]] = {
    "logits": OVER_CLASSES,
    "log-probabilities": OVER_CLASSES,
    "binary logits": ("Sigmoid",),
}


@dataclass(frozen=True)
class Prediction:
    """What a loss reads: the value, the axis of its classes if that is known, and what it is."""

    value: ir.Value
    axis: int | None
    said: str


def prediction(op: Builder, output: ir.Value, reads: Reads, loss: str) -> Prediction:
    """Return what a loss reads where an output is given to it.

    Of an output that `Softmax`, `LogSoftmax` or `Sigmoid` makes, also through operators that only
    move elements, that is taken which goes into these, since the logarithm of what comes out
    loses digits. That logarithm is taken where they are inside of a branch or a loop, or where
    others, such as means, come between. Everything else counts as what the loss reads.

    Raises: ArgumentError if probabilities of each element for itself meet a loss over classes, or
    the other way round.
    """
    if reads == "values":
        return Prediction(output, None, f"'{output.name}' as it is")
    moves, value = unmoved(output)
    maker = maker_of(value)
    if maker is None:
        return Prediction(output, None, f"'{output.name}', taken as {reads}")
    node = maker.node
    if maker.kind not in _FITTING[reads]:
        raise ArgumentError(_misfit(output, maker, loss))
    if node is not value.producer():
        said = f"'{output.name}', made of probabilities of node {label(node)} ({node.op_type}): "
        said += "its logarithm is read"
        return Prediction(_logarithm(op, output, maker.kind), None, said)
    source, axis = maker.source, maker.axis
    said = f"'{source.name}', the logits of '{output.name}', which node {label(node)} "
    said += f"({node.op_type}) makes"
    if maker.kind == "Sigmoid":
        return Prediction(_moved(op, source, moves), None, said)
    if moves or reads == "log-probabilities":
        source = _moved(op, op.LogSoftmax(source, axis=axis), moves)
    return Prediction(source, None if moves else axis, said)


def _logarithm(op: Builder, P: ir.Value, maker: str) -> ir.Value:
    """Return log P of probabilities over classes, or log P/(1 - P), for P not nearer than 1e-7."""
    if maker == "LogSoftmax":
        return P
    P = op.widened(P)
    P = op.Clip(P, *(op.constant(limit, P.dtype) for limit in (1e-7, 1 - 1e-7)))
    logarithm = op.Log(P)
    return op.Sub(logarithm, op.Log(op.Sub(1.0, P))) if maker == "Sigmoid" else logarithm


def _moved(op: Builder, value: ir.Value, moves: list[ir.Node]) -> ir.Value:
    """Move the elements of another value in the same way."""
    for node in moves:
        (value,) = op.emit(node.op_type, [value, *node.inputs[1:]], dict(node.attributes))
    return value


def _misfit(output: ir.Value, maker: Maker, loss: str) -> str:
    other = "'binary-cross-entropy'" if maker.kind == "Sigmoid" else "'cross-entropy'"
    kind = "each element for itself" if maker.kind == "Sigmoid" else "all classes together"
    return (
        f"loss {loss!r} reads '{output.name}', which node {label(maker.node)} "
        f"({maker.node.op_type}) makes: probabilities of {kind}. Use {other}, or name another "
        "output."
    )
