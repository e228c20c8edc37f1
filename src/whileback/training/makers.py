"""Which node makes an output, and whether it makes probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard, subgraphs
from whileback.graph.shapes import rank

__all__ = ["OVER_CLASSES", "Maker", "maker_of", "unmoved"]

OVER_CLASSES = ("Softmax", "LogSoftmax")
# These move elements, and change none.
_MOVES = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten")
# Probabilities stay probabilities in these.
_KEEPS = ("Cast", "Gather", "GatherND", "ReduceMax", "ReduceMean", "ReduceMin", "Slice")


@dataclass(frozen=True)
class Maker:
    """A node that makes probabilities, of what, and by which operator or one that it stands for."""

    node: ir.Node
    kind: str
    source: ir.Value
    axis: int = -1


def unmoved(value: ir.Value) -> tuple[list[ir.Node], ir.Value]:
    """Return the nodes that move elements to a value, and the value that they begin with.

    What is quantised and dequantised on the way counts as what it is rounded from.
    """
    moves: list[ir.Node] = []
    value = _unrounded(value)
    node = value.producer()
    while node is not None and is_standard(node, *_MOVES) and node.inputs[0] is not None:
        moves.insert(0, node)
        value = _unrounded(node.inputs[0])
        node = value.producer()
    return moves, value


def _unrounded(value: ir.Value) -> ir.Value:
    """Return what `QuantizeLinear` and `DequantizeLinear` round, one behind the other."""
    source = value
    for operator in ("DequantizeLinear", "QuantizeLinear"):
        node = source.producer()
        if node is None or not is_standard(node, operator) or node.inputs[0] is None:
            return value
        source = node.inputs[0]
    return _unrounded(source)


def maker_of(value: ir.Value) -> Maker | None:
    """Return what makes probabilities, also in a branch or a loop, or chosen of more."""
    start = unmoved(value)[1]
    node = start.producer()
    if node is None or (found := _maker(node)) is not None:
        return None if node is None else found
    if is_standard(node, *_KEEPS) and node.inputs[0] is not None:
        return maker_of(node.inputs[0])
    if not is_standard(node, "If", "Loop", "Scan"):
        return None
    for inner in subgraphs(node):
        # The body of a `Loop` returns its condition first.
        index = (start.index() or 0) + len(inner.outputs) - len(node.outputs)
        found = maker_of(inner.outputs[index])
        if found is not None:
            return found
    return None


def _maker(node: ir.Node) -> Maker | None:
    """Return what a node makes, if these are probabilities."""
    if is_standard(node, "Sigmoid", *OVER_CLASSES) and node.inputs[0] is not None:
        return Maker(node, node.op_type, node.inputs[0], node.attributes.get_int("axis", -1))
    return _written_out(node)


def _written_out(node: ir.Node) -> Maker | None:
    """Return the softmax eᵘ/Σ eᵘ that a division stands for, as JAX and TensorFlow export it."""
    if not is_standard(node, "Div"):
        return None
    above, below = node.inputs[0], node.inputs[1]
    exp = None if above is None else above.producer()
    total = None if below is None else _spread(below)
    if exp is None or total is None or not is_standard(exp, "Exp") or total.inputs[0] is not above:
        return None
    axes = known_ints(total.inputs[1]) if len(total.inputs) > 1 else None
    source = exp.inputs[0]
    if source is None or axes is None or len(axes) != 1 or not rank(source):
        return None
    return Maker(node, "Softmax", source, axes[0])


def _spread(value: ir.Value) -> ir.Node | None:
    """Return the sum that a value repeats along the axis that it was taken over."""
    node = value.producer()
    while node is not None and is_standard(node, "Expand", "Reshape", "Unsqueeze", "Identity"):
        source = node.inputs[0]
        node = None if source is None else source.producer()
    return node if node is not None and is_standard(node, "ReduceSum") else None
