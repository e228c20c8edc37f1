"""What a loss reads of an output: logits or probabilities, told apart by what makes the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.names import label
from whileback.graph.scopes import is_standard, subgraphs

__all__ = ["Prediction", "Reads", "prediction"]

Reads = Literal["logits", "binary logits", "log-probabilities", "values"]

# These move elements, and change none.
_MOVES = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten")
# Probabilities stay probabilities in these.
_KEEPS = ("Cast", "Gather", "GatherND", "ReduceMax", "ReduceMean", "ReduceMin", "Slice")
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
    loses digits. That logarithm is taken where they are inside of a branch or a loop, or where
    others, such as means, come between. Everything else counts as what the loss reads.

    Raises: ArgumentError if probabilities of each element for itself meet a loss over classes, or
    the other way round.
    """
    if reads == "values":
        return Prediction(output, None, f"'{output.name}' as it is")
    moves, value = _unmoved(output)
    maker = _maker(value)
    if maker is None:
        return Prediction(output, None, f"'{output.name}', taken as {reads}")
    if maker.op_type not in _FITTING[reads]:
        raise ArgumentError(_misfit(output, maker, loss))
    if maker is not value.producer():
        said = f"'{output.name}', made of probabilities of node {label(maker)} ({maker.op_type}): "
        said += "its logarithm is read"
        return Prediction(_logarithm(op, output, maker.op_type), None, said)
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


def _unmoved(value: ir.Value) -> tuple[list[ir.Node], ir.Value]:
    """Return the nodes that move elements to a value, and the value that they begin with."""
    moves: list[ir.Node] = []
    node = value.producer()
    while node is not None and is_standard(node, *_MOVES) and node.inputs[0] is not None:
        moves.insert(0, node)
        value = node.inputs[0]
        node = value.producer()
    return moves, value


def _maker(value: ir.Value) -> ir.Node | None:
    """Return the node that makes probabilities, also in a branch or a loop, or chosen of more."""
    start = _unmoved(value)[1]
    node = start.producer()
    if node is None or is_standard(node, "Sigmoid", *_OVER_CLASSES):
        return node
    if is_standard(node, *_KEEPS) and node.inputs[0] is not None:
        return _maker(node.inputs[0])
    if not is_standard(node, "If", "Loop", "Scan"):
        return None
    for inner in subgraphs(node):
        # The body of a `Loop` returns its condition first.
        index = (start.index() or 0) + len(inner.outputs) - len(node.outputs)
        maker = _maker(inner.outputs[index])
        if maker is not None:
            return maker
    return None


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


def _misfit(output: ir.Value, maker: ir.Node, loss: str) -> str:
    other = "'binary-cross-entropy'" if maker.op_type == "Sigmoid" else "'cross-entropy'"
    kind = "each element for itself" if maker.op_type == "Sigmoid" else "all classes together"
    return (
        f"loss {loss!r} reads '{output.name}', which node {label(maker)} ({maker.op_type}) makes: "
        f"probabilities of {kind}. Use {other}, or name another output."
    )
