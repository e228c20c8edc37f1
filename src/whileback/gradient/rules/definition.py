"""Gradients of an operator by way of simpler ones that it is made of.

The operator stays in the model, and runs there as one. Only its gradient goes through what defines
it, by the rules of that; what no gradient reads is cleaned away in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import onnx_ir as ir

from whileback.gradient.activity import passes_gradient
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.graph.shapes import is_float

__all__ = ["by_definition"]


def by_definition(
    op: GradientBuilder, node: ir.Node, dY: ir.Value, define: Callable[..., ir.Value]
) -> Sequence[ir.Value | None]:
    """Return the gradients of a node's inputs, given what its first output is made of.

    Args:
        op: emits the gradient's operators.
        node: the forward node.
        dY: the cotangent of its first output.
        define: called as `define(op, node, *inputs)`, emits operators that have rules and returns
            what equals the output. The inputs it is given are no two the same value.
    """
    copies = [op.Identity(value) if value in op.active else None for value in node.inputs]
    op.active.update(copy for copy in copies if copy is not None)
    inputs = [v if copy is None else copy for v, copy in zip(node.inputs, copies, strict=True)]
    last = op.graph[-1]
    cotangents: Cotangents = {define(op, node, *inputs): dY}
    made = list(takewhile(lambda each: each is not last, reversed(op.graph)))[::-1]
    for each in made:
        if passes_gradient(each) and any(value in op.active for value in each.inputs):
            op.active.update(filter(is_float, each.outputs))
    backward(op, made, cotangents)
    op.origin = node
    return [None if copy is None else cotangents.get(copy) for copy in copies]
