"""Gradients of an operator by way of simpler ones that it is made of.

The operator stays in the model, and runs there as one. Only its gradient goes through what defines
it, by the rules of that; what no gradient reads is cleaned away in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.gradient.backward import Cotangents, GradientBuilder, backward_apart

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
    apart = op.inside("definition")
    copies = [apart.Identity(value) if value in op.active else None for value in node.inputs]
    inputs = [v if copy is None else copy for v, copy in zip(node.inputs, copies, strict=True)]
    cotangents: Cotangents = {define(apart, node, *inputs): dY}
    backward_apart(apart, op, [copy for copy in copies if copy is not None], cotangents)
    return [None if copy is None else cotangents.get(copy) for copy in copies]
