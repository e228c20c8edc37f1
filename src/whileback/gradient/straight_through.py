"""Straight-through gradients: a rounded result has the gradient of what is rounded.

So it is in quantisation-aware training: as if nothing was rounded, and zero where the result is
clipped to the range of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import onnx_ir as ir

from whileback.gradient.backward import Cotangents, backward_apart
from whileback.gradient.builder import GradientBuilder
from whileback.gradient.registry import Rule, lookup

__all__ = ["function_of", "unrounded"]

# Called as `function(op, node, *inputs)`, None for an input left out; returns what each output is
# before it is rounded, None for one that counts as a constant.
Function = Callable[..., "ir.Value | Sequence[ir.Value | None]"]

_FUNCTIONS: dict[Rule, Function] = {}


def unrounded(function: Function) -> Rule:
    """Make a rule of the function of an operator: the gradient of the operators that it emits."""

    @wraps(function)
    def rule(op: GradientBuilder, node: ir.Node, *received: ir.Value | None) -> list[Any]:
        apart = op.inside("unrounded")
        outputs = outputs_of(function, apart, node)
        known: Cotangents = {
            output: cotangent
            for output, cotangent in zip(outputs, received, strict=False)
            if output is not None and cotangent is not None
        }
        backward_apart(apart, op, [v for v in node.inputs if v in op.active], known)
        # What a node reads twice has one gradient in all.
        return [None if v is None else known.pop(v, None) for v in node.inputs]

    _FUNCTIONS[rule] = function
    return rule


def function_of(node: ir.Node) -> Function | None:
    """Return the function of the node's operator, None if it is not `unrounded`."""
    entry = lookup(node)
    return None if entry is None or entry.rule is None else _FUNCTIONS.get(entry.rule)


def outputs_of(function: Function, op: Any, node: ir.Node) -> Sequence[ir.Value | None]:
    """Return what a function makes of the inputs of a node, one for each output."""
    outputs = function(op, node, *node.inputs)
    return [outputs] if isinstance(outputs, ir.Value) else outputs
