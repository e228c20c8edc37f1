"""Batch normalization in training: by the batch's own statistics, of which running ones keep track.

A node keeps its operator, and reads the batch's mean and variance where it read the running ones:
in training mode ONNX Runtime 1.32 lets it write over its inputs, parameters of the step.
"""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from whileback.errors import ArgumentError, UnsupportedError, nearest
from whileback.graph.builder import Builder
from whileback.graph.names import label
from whileback.graph.scopes import is_standard, walk
from whileback.graph.shapes import rank

__all__ = [
    "Statistics",
    "normalize_by",
    "running_statistics",
    "settle_statistics",
    "train_statistics",
]

# What `BatchNormalization` normalizes by in training.
Statistics = Literal["batch", "running"]


def normalize_by(op: Builder, statistics: Statistics) -> dict[ir.Value, ir.Value]:
    """Let `BatchNormalization` normalize by what is said; return what running statistics become.

    Raises: ArgumentError if the word is unknown; UnsupportedError as `train_statistics`.
    """
    known = ("batch", "running")
    if statistics not in known:
        raise ArgumentError(f"statistics={statistics!r} is unknown; {nearest(statistics, known)}")
    if statistics == "batch":
        return train_statistics(op)
    settle_statistics(op.graph)
    return {}


def running_statistics(graph: ir.Graph) -> list[ir.Value]:
    """Return the initializers that `train_statistics` would update."""
    found = [value for node in graph if _keeps_statistics(node) for value in node.inputs[3:5]]
    return [value for value in dict.fromkeys(found) if value is not None]


def train_statistics(op: Builder) -> dict[ir.Value, ir.Value]:
    """Let the `BatchNormalization` of the main graph normalize by the batch.

    That is done where the running mean and variance are initializers. Nodes inside of loops and
    branches stay as they are, and so do those that read statistics from somewhere else. Every node
    of the graph is put in its place again, behind what is new before it.

    Returns: what the running statistics become; one that several nodes share is updated by each.

    Raises: UnsupportedError for a tensor of unknown rank.
    """
    running: dict[ir.Value, ir.Value] = {}
    for node in list(op.graph):
        op.graph.remove(node)
        op.graph.append(node)
        if _keeps_statistics(node):
            op.graph.remove(node)
            _train(op, node, running)
    return running


def settle_statistics(graph: ir.Graph) -> None:
    """Let every `BatchNormalization`, at any depth, normalize by its running statistics."""
    for node in walk(graph):
        training = node.attributes.get_int("training_mode", 0)
        if is_standard(node, "BatchNormalization") and training:
            running = [value for value in node.inputs[3:5] if value is not None]
            _as_at_inference(node, running)


def _keeps_statistics(node: ir.Node) -> bool:
    return is_standard(node, "BatchNormalization") and all(
        value is not None and value.is_initializer() for value in node.inputs[3:5]
    )


def _train(op: Builder, node: ir.Node, running: dict[ir.Value, ir.Value]) -> None:
    """Emit the statistics of the batch, the node behind them, and the next running ones.

    Those are r' = momentum·r + (1 - momentum)·batch. Where the model says nothing of training, the
    variance in there is Σ(X - mean)²/(n - 1), as PyTorch has it; in training mode, ONNX has /n.
    """
    X, count = node.inputs[0], None if node.inputs[0] is None else rank(node.inputs[0])
    if X is None or count is None:
        raise UnsupportedError(
            f"Node {label(node)} (BatchNormalization) reads a tensor of unknown rank, so that "
            "nothing tells over which axes its statistics go. Give that input a shape."
        )
    axes = [0, *range(2, count)]
    data = op.widened(X)
    mean = op.ReduceMean(data, axes, keepdims=1)
    centred = op.Sub(data, mean)
    squares = op.ReduceSum(op.Mul(centred, centred), axes, keepdims=0)
    number = op.Div(op.Size(data), op.Size(mean))
    variance = op.Div(squares, op.cast(number, data))
    batch = [op.Squeeze(mean, axes), variance]
    if not node.attributes.get_int("training_mode", 0):
        degrees = op.Max(op.Sub(number, 1), 1)
        batch[1] = op.Div(squares, op.cast(degrees, data))
    momentum = node.attributes.get_float("momentum", 0.9)
    updates = []
    for old, new in zip(node.inputs[3:5], batch, strict=True):
        assert old is not None
        kept = op.Mul(running.get(old, old), momentum)
        running[old] = op.Add(kept, op.Mul(op.cast(new, old), 1 - momentum))
        updates.append(running[old])
    for index, value in enumerate((op.Squeeze(mean, axes), variance), start=3):
        old = node.inputs[index]
        assert old is not None
        node.replace_input_with(index, op.cast(value, old))
    op.graph.append(node)
    _as_at_inference(node, updates)


def _as_at_inference(node: ir.Node, updates: list[ir.Value]) -> None:
    """Leave the node its first output; readers of the others read the running statistics."""
    assert node.graph is not None
    for value, update in zip(node.outputs[1:], updates, strict=False):
        # The model may return it, by its name.
        same = ir.node("Identity", [update], name=f"{node.name}/{value.name}")
        same.outputs[0].name, value.name = value.name, None
        same.outputs[0].type, same.outputs[0].shape = value.type, value.shape
        node.graph.insert_after(node, same)
        value.replace_all_uses_with(same.outputs[0], replace_graph_outputs=True)
    node.resize_outputs(1)
    node.attributes.pop("training_mode", None)
