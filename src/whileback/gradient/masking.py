"""Which values are masked: what reads them may choose other elements instead.

The cotangent of an element that was not chosen is 0. Where a function has an infinite slope at
such an element, as `Log` has at 0, the product 0·∞ would be NaN: `Where(x > 0, Log(x), 0)`. The
rules of such functions therefore look away where a masked value's cotangent is 0.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.scopes import is_standard, operands, subgraphs, walk

__all__ = ["masked"]

_CHOOSING = ("Clip", "Max", "Min", "Where")


def masked(graph: ir.Graph) -> set[ir.Value]:
    """Return the values, in every scope, on which the result of a choice may depend.

    All that a loop or a branch computes counts as such if there is a choice inside it.
    """
    found: set[ir.Value] = set()
    _extend(graph, found)
    return found


def _extend(graph: ir.Graph, found: set[ir.Value]) -> None:
    for node in reversed(graph):
        inner = subgraphs(node)
        if _chooses(node, inner) or any(value in found for value in node.outputs):
            found.update(value for value in operands(node) if value is not None)
            for body in inner:
                found.update(body.outputs)
        for body in inner:
            _extend(body, found)


def _chooses(node: ir.Node, inner: list[ir.Graph]) -> bool:
    within = (each for body in inner for each in walk(body))
    return any(is_standard(each, *_CHOOSING) for each in (node, *within))
