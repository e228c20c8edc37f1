"""Taking carried values out of loops."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from whileback.gradient.rules.controlflow.tape import hand_over
from whileback.graph.builder import Builder
from whileback.graph.cleanup import remove_outputs
from whileback.graph.moving import taken_out
from whileback.graph.scopes import Carry, LoopView

__all__ = ["replace_carry"]


def replace_carry(
    op: Builder, view: LoopView, carry: Carry, role: str, emit: Callable[[Builder], ir.Value]
) -> None:
    """Carry a value no longer; what reads it in a trip reads the initial one.

    Args:
        op: a builder for the model.
        view: the loop, which has other outputs.
        carry: the value.
        role: what the new nodes do, as their names tell.
        emit: emits, behind the loop, what stands for the value after the last trip.
    """
    node, around, uses = view.node, view.node.graph, list(carry.result.uses())
    assert isinstance(around, ir.Graph)
    apart = op.inside(role)
    apart.origin, apart.role = node, role
    result = emit(apart)
    around.insert_after(node, taken_out(apart.graph))
    hand_over(around, carry.result, uses, result)
    _drop(view, carry)


def _drop(view: LoopView, carry: Carry) -> None:
    node, body = view.node, view.body
    position, number = body.inputs.index(carry.input), view.carries.index(carry)
    body.outputs.pop(number if view.proceed is None else number + 1)
    carry.input.replace_all_uses_with(carry.initial)
    staying = [value for index, value in enumerate(node.inputs) if index != position]
    node.resize_inputs(len(staying))
    for index, value in enumerate(staying):
        node.replace_input_with(index, value)
    body.inputs.pop(position)
    remove_outputs(node, [number])
