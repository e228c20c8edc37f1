"""What a loss reads of an output: logits or probabilities, told apart by what makes the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.names import label
from whileback.graph.scopes import is_standard

__all__ = ["Prediction", "Reads", "prediction"]

Reads = Literal["logits", "binary logits", "log-probabilities", "values"]

# These move elements, and change none.
_MOVES = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten")
_OVER_CLASSES = ("Softmax", "LogSoftmax")
_FITTING: dict[Reads, tuple[str, ...]] = {
    "logits": _OVER_CLASSES,
    "log-probabilities": _OVER_CLASSES,
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
    loses digits. Everything else counts as what the loss reads.

    Raises: ArgumentError if probabilities of each element for itself meet a loss over classes, or
    the other way round.
    """
    if reads == "values":
        return Prediction(output, None, f"'{output.name}' as it is")
    maker, moves = _maker(output)
    if maker is None:
        return Prediction(output, None, f"'{output.name}', taken as {reads}")
    if maker.op_type not in _FITTING[reads]:
        raise ArgumentError(_misfit(output, maker, loss))
    source = maker.inputs[0]
    assert source is not None
    said = f"'{source.name}', the logits of '{output.name}', which node {label(maker)} "
    said += f"({maker.op_type}) makes"
    if maker.op_type == "Sigmoid":
        return Prediction(_moved(op, source, moves), None, said)
    axis = maker.attributes.get_int("axis", -1)
    if moves or reads == "log-probabilities":
        source = _moved(op, op.LogSoftmax(source, axis=axis), moves)
    return Prediction(source, None if moves else axis, said)


def _maker(output: ir.Value) -> tuple[ir.Node | None, list[ir.Node]]:
    """Return the node that makes probabilities, and those that move them to the output."""
    moves: list[ir.Node] = []
    node = output.producer()
    while node is not None and is_standard(node, *_MOVES) and node.inputs[0] is not None:
        moves.insert(0, node)
        node = node.inputs[0].producer()
    if node is not None and is_standard(node, "Sigmoid", *_OVER_CLASSES):
        return node, moves
    return None, []


def _moved(op: Builder, value: ir.Value, moves: list[ir.Node]) -> ir.Value:
    """Move the elements of another value in the same way."""
    for node in moves:
        (value,) = op.emit(node.op_type, [value, *node.inputs[1:]], dict(node.attributes))
    return value


def _misfit(output: ir.Value, maker: ir.Node, loss: str) -> str:
    other = "'binary-cross-entropy'" if maker.op_type == "Sigmoid" else "'cross-entropy'"
    kind = "each element for itself" if maker.op_type == "Sigmoid" else "all classes together"
    return (
        f"loss {loss!r} reads '{output.name}', which node {label(maker)} ({maker.op_type}) makes: "
        f"probabilities of {kind}. Use {other}, or name another output."
    )
