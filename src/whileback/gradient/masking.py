"""Which values are masked: what reads them may choose other elements instead.

The cotangent of an element that was not chosen is 0. Where a function has an infinite slope at
such an element, as `Log` has at 0, the product 0·∞ would be NaN: `Where(x > 0, Log(x), 0)`. The
rules of such functions therefore look away where a masked value's cotangent is 0.

That concerns what may be infinite, or no number, though all that the model is given is finite.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.activity import dependents
from whileback.graph.scopes import is_standard, operands, subgraphs, walk

__all__ = ["masked"]

_CHOOSING = ("Clip", "Max", "Min", "Where")
# Operators with a pole, with a slope that is infinite somewhere, or that overflow early.
_SINGULAR = frozenset(
    "Acos Acosh Asin Atanh Cosh Div Exp Log LogSoftmax Mod Pow Reciprocal ReduceLogSum "
    "ReduceLogSumExp Sinh Softmax Sqrt".split()
)
# Operators that make nothing infinite, but pass it on.
_PASSING = frozenset(
    "Abs Add Cast CastLike Clip Concat Cos Expand Gather Gelu Identity LeakyRelu Max Mean Min Mish "
    "Mul Neg ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Sin Slice Softplus Split "
    "Squeeze Sub Sum Swish Tan Transpose Unsqueeze Where".split()
)

# What is counted with has no cotangents: to choose among such numbers masks nothing.
_COUNTS = (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)


def masked(graph: ir.Graph) -> set[ir.Value]:
    """Return the values, in every scope, that may be infinite and that a choice may depend on.

    All that a loop or a branch computes counts as chosen from if there is a choice inside it.
    """
    found: set[ir.Value] = set()
    _extend(graph, found)
    return found & _unbounded(graph) if found else found


def _unbounded(graph: ir.Graph) -> set[ir.Value]:
    """Return the values, in every scope, that may be infinite or no number."""
    singular = [node for node in walk(graph) if is_standard(node, *_SINGULAR)]
    sources = [value for node in singular for value in node.outputs]
    return dependents(graph, sources, lambda node: is_standard(node, *_PASSING))


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
    return any(
        is_standard(each, *_CHOOSING) and each.outputs[0].dtype not in _COUNTS
        for each in (node, *within)
    )
