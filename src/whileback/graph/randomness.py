"""Which operators draw random numbers: they give other ones when they run again."""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard, subgraphs, walk

__all__ = ["draws", "may_draw"]

_RANDOM = (
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)


def may_draw(node: ir.Node) -> bool:
    """Tell whether the node's operator draws random numbers, `Dropout` only in training."""
    return is_standard(node, *_RANDOM)


def draws(node: ir.Node) -> bool:
    """Tell whether the node, or one inside it, draws random numbers."""
    inside = (each for graph in subgraphs(node) for each in walk(graph))
    return any(may_draw(each) and not _is_inference(each) for each in (node, *inside))


def _is_inference(node: ir.Node) -> bool:
    if node.op_type != "Dropout":
        return False
    return len(node.inputs) <= 2 or known_ints(node.inputs[2]) == [0]
