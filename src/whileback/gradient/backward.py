"""The reverse pass over one graph: the cotangents of its values, from the last node to the first.

Every rule is a function of the forward node and the cotangents of its outputs. This pass calls
the rules in reverse order and adds up what they return; bodies and branches are passes of their
own, started by the rules of `Loop`, `Scan` and `If`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from whileback.errors import ArgumentError, NoGradientError
from whileback.gradient.activity import dependents
from whileback.gradient.builder import GradientBuilder
from whileback.gradient.narrow import on_floats
from whileback.gradient.registry import lookup
from whileback.graph.builder import Builder
from whileback.graph.containers import is_sequence, without_names
from whileback.graph.moving import taken_out
from whileback.graph.scopes import operands

__all__ = [
    "Cotangents",
    "GradientBuilder",
    "apply_rule",
    "backward",
    "backward_apart",
    "note_shape",
]

Cotangents = dict[ir.Value, ir.Value]


def backward(op: GradientBuilder, nodes: Sequence[ir.Node], cotangents: Cotangents) -> None:
    """Add to `cotangents` those of everything active that the nodes read.

    Args:
        op: emits the gradient's operators, into another graph or behind the nodes.
        nodes: the forward nodes, in their order.
        cotangents: those of the values that the nodes compute; grows.
    """
    for node in reversed(nodes):
        received = [cotangents.get(value) for value in node.outputs]
        read = operands(node)
        if not any(received) or not any(value in op.active for value in read):
            continue
        for value, gradient in zip(read, apply_rule(op, node, received, len(read)), strict=True):
            if value is not None and gradient is not None and value in op.active:
                note_shape(op.graph, gradient, value)
                earlier = cotangents.get(value)
                cotangents[value] = gradient if earlier is None else op.plus(earlier, gradient)


def backward_apart(
    apart: GradientBuilder, into: Builder, sources: Iterable[ir.Value], cotangents: Cotangents
) -> None:
    """Differentiate what was emitted into a graph apart, then move all of it into another one.

    Args:
        apart: has emitted operators that are no part of the forward model.
        into: whose graph they and their gradient are for.
        sources: the values whose cotangents are wanted.
        cotangents: those of what the operators compute; grows.
    """
    apart.active.update(dependents(apart.graph, sources))
    backward(apart, list(apart.graph), cotangents)
    into.graph.extend(taken_out(apart.graph))


def note_shape(graph: ir.Graph, gradient: ir.Value, value: ir.Value) -> None:
    """Give a gradient or a tangent the shape of its value, where inference did not find that.

    One that is handed into a branch from outside has it only where the branch is taken.
    """
    if value.shape is None or gradient.graph is not graph or gradient.is_graph_input():
        return
    shape = without_names(value.shape) if is_sequence(value) else value.shape
    if gradient.shape is None:
        gradient.shape = shape
    elif shape is not None and len(gradient.shape) == len(shape):
        pairs = zip(gradient.shape, shape, strict=True)
        gradient.shape = ir.Shape([own if isinstance(own, int) else dim for own, dim in pairs])


def apply_rule(
    op: GradientBuilder, node: ir.Node, received: list[ir.Value | None], count: int
) -> Sequence[ir.Value | None]:
    """Return the gradients of the `count` operands of a node, for cotangents of its outputs.

    Raises:
        NoGradientError: the operator has no rule.
    """
    entry = lookup(node)
    if entry is None:
        raise NoGradientError(f"Operator '{node.op_type}' (node '{node.name}') has no rule.")
    if entry.rule is None:
        return [None] * count
    op.origin = node
    floats = node if entry.narrow else on_floats(op, node)
    results = entry.rule(op, floats, *received)
    if not isinstance(results, (tuple, list)):
        results = (results,)
    if any(result is not None for result in results[count:]):
        raise ArgumentError(
            f"The rule for '{node.op_type}' returned {len(results)} gradients for node "
            f"'{node.name}', which reads {count} values. Return one for each, in order."
        )
    return [*results[:count], *[None] * (count - len(results))]
