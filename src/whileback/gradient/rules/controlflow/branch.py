"""The gradient of `If`: the gradient of the branch that ran."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder, backward
from whileback.gradient.registry import rule
from whileback.gradient.rules.controlflow.draws import run_again
from whileback.gradient.rules.controlflow.frames import choose_frames, residuals
from whileback.gradient.rules.controlflow.prices import Terms
from whileback.gradient.rules.controlflow.tape import add_branch_output, replace_uses
from whileback.graph.cleanup import prune
from whileback.graph.copying import ValueMap
from whileback.graph.moving import put_first
from whileback.graph.scopes import branches, definitions, operands, walk

__all__ = ["if_"]


@rule("If")
def if_(op: GradientBuilder, node: ir.Node, *received: ir.Value | None) -> Sequence[object]:
    """du = the vjp of the branch that ran; exact zeros for what only the other one reads.

    Outside of loops, what the gradient needs from inside a branch becomes an output of the forward
    `If`, an empty tensor from the other branch.
    """
    captured = [value for value in operands(node)[1:] if value is not None]
    wanted = [value for value in captured if value in op.active]
    then, other = branches(node)
    gradients = [_branch_gradient(op, node, branch, wanted, received) for branch in (then, other)]
    for branch, others, inside in ((then, other, gradients[0]), (other, then, gradients[1])):
        _obtain_residuals(op, node, branch, others, inside.graph)
    attributes = {"then_branch": gradients[0].graph, "else_branch": gradients[1].graph}
    results = op.emit("If", [node.inputs[0]], attributes, outputs=len(wanted))
    for value, result in zip(wanted, results, strict=True):
        result.type, result.shape = op.cotangent_type(value), value.shape
    given = dict(zip(wanted, results, strict=True))
    return [None, *(given.get(value) for value in captured)]


def _branch_gradient(
    op: GradientBuilder,
    node: ir.Node,
    branch: ir.Graph,
    wanted: list[ir.Value],
    received: Sequence[ir.Value | None],
) -> GradientBuilder:
    """Return the vjp of one branch as a graph that gives a value for each of `wanted`."""
    inside = op.inside(f"{node.name}/grad/{branch.name}")
    known: dict[ir.Value, ir.Value] = {}
    for output, cotangent in zip(branch.outputs, received, strict=False):
        if cotangent is not None:
            earlier = known.get(output)
            known[output] = cotangent if earlier is None else inside.plus(earlier, cotangent)
    backward(inside, list(branch), known)
    inside.origin = node
    results = (known[u] if u in known else inside.zeros_like(u) for u in wanted)
    inside.graph.outputs.extend(inside.own(results))
    prune(inside.graph)
    return inside


def _obtain_residuals(
    op: GradientBuilder, node: ir.Node, branch: ir.Graph, other: ir.Graph, gradient: ir.Graph
) -> None:
    """Make the values of the branch that its gradient reads available to it.

    In a loop they are all computed again: what a branch keeps in some trips cannot be stacked.
    """
    needed = residuals(gradient, branch)
    inside = list(definitions(branch))
    replaced: ValueMap = {value: op.drawn[value] for value in inside if value in op.drawn}
    computed = set(inside) if op.in_loop else set()
    frames = choose_frames(op, branch, needed, Terms(set(replaced), varying=computed, once=False))
    copies = [copy for each in frames.again for copy in run_again(op, each, replaced)]
    put_first(gradient, copies)
    for value in frames.kept:
        replaced[value] = add_branch_output(op, node, branch, other, value)
    users = set(walk(gradient))
    for old, new in replaced.items():
        replace_uses(old, new, users)
