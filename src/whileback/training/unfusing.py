"""LSTMs as loops over their steps, which keep for the gradient what they compute.

The operator returns states alone, so that its gradient computes all gates again, a third of a step
of training. A loop of plain operators keeps them, and its trips cost little more than the operator
where the products in them are large.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.definitions.table import Definer
from whileback.graph.recurrent import (
    DEFAULT_ACTIVATIONS,
    Activation,
    count_directions,
    step_by_step,
)
from whileback.graph.scopes import is_standard

__all__ = ["unfuse"]

# Of the benchmark's LSTM, the loop is the faster one from about so many products of a gate in a
# trip; with fewer, its many small operators cost more than they spare.
_ENOUGH = 2**16
# For how many sequences to decide where the model leaves that open.
_BATCH = 16

_FUNCTIONS: dict[str, Activation] = {
    "Sigmoid": lambda op, z: op.Sigmoid(z),
    "Tanh": lambda op, z: op.Tanh(z),
}


def unfuse(op: Builder) -> None:
    """Put loops in the place of those LSTMs of the main graph for which that pays.

    Those inside of loops and branches stay: the way back computes all that is in there again.
    """
    definer = Definer(op.graph, op.names, op.shapes)
    definer.share_constants(op)
    for node in list(op.graph):
        if is_standard(node, "LSTM") and _is_plain(node) and _is_large(node):
            definer.replace(node, _loop)


def _loop(op: Builder, node: ir.Node, *_: ir.Value | None) -> Sequence[ir.Value]:
    functions = [_FUNCTIONS[name] for name in DEFAULT_ACTIVATIONS["LSTM"]]
    return step_by_step(op, node, functions * count_directions(node))


def _is_plain(node: ir.Node) -> bool:
    """Tell whether its activation functions are the usual ones, in FLOAT."""
    X = node.inputs[0]
    usual = DEFAULT_ACTIVATIONS["LSTM"] * count_directions(node)
    names = node.attributes.get_strings("activations", usual)
    same = [name.lower() for name in names] == [name.lower() for name in usual]
    return same and X is not None and X.dtype == ir.DataType.FLOAT


def _is_large(node: ir.Node) -> bool:
    """Tell whether a trip has enough to do: as many products as sequences times units squared."""
    X = node.inputs[0]
    if X is None or X.shape is None:
        return False
    batch = X.shape[0 if node.attributes.get_int("layout", 0) else 1]
    sequences = batch if isinstance(batch, int) else _BATCH
    return sequences * node.attributes["hidden_size"].as_int() ** 2 >= _ENOUGH
