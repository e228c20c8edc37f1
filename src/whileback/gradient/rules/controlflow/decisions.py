"""Values that decide something, and could come out otherwise when they are computed again.

One node for the rows of all trips rounds some elements otherwise than a node per trip: ONNX Runtime
1.32 sums up in another order, and has two ways to take a sine. Of a number that is a last digit;
of a comparison it is the other branch, or one trip more of an inner loop.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from whileback.graph.randomness import may_draw
from whileback.graph.scopes import is_standard, operands, subgraphs, walk
from whileback.graph.types import FLOATS

__all__ = ["deciding"]

# They give the same in whatever company an element is computed.
EXACT = frozenset(
    "Abs Add And Cast Ceil Clip Div Equal Floor Greater GreaterOrEqual Identity Less LessOrEqual "
    "Max Min Mul Neg Not Or Reciprocal Relu Round Sign Sqrt Squeeze Sub Transpose Unsqueeze Where "
    "Xor".split()
)
# They tell how large something is, whatever is in it.
SIZES = frozenset("OptionalHasElement SequenceLength Shape Size".split())


def deciding(body: ir.Graph, stacked: Collection[ir.Node]) -> set[ir.Value]:
    """Return the values that are not to be computed again, since something is decided with them.

    Args:
        body: the body of a loop.
        stacked: its nodes that, computed again, are computed for all trips at once.
    """
    found: set[ir.Value] = set()
    unsure: set[ir.Value] = set()
    for node in body:
        read = unsure.intersection(operands(node))
        if read and _decides(node):
            found.update(read if subgraphs(node) else node.outputs)
            unsure -= found
        elif read or (node in stacked and not is_standard(node, *EXACT)):
            unsure.update(node.outputs)
    return found


def _decides(node: ir.Node) -> bool:
    """Tell whether the node, or one inside it, makes of floating-point numbers something else."""
    inside = [each for graph in subgraphs(node) for each in walk(graph)]
    return any(_rounds(each) for each in (node, *inside))


def _rounds(node: ir.Node) -> bool:
    if is_standard(node, *SIZES) or may_draw(node) or subgraphs(node):
        return False
    read = any(value is not None and value.dtype in FLOATS for value in node.inputs)
    return read and any(value.dtype not in (None, *FLOATS) for value in node.outputs)
