"""Decides how much of a model is shown."""

from __future__ import annotations

from itertools import islice

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.printing import to_lines
from whileback.showing.details import to_details
from whileback.showing.screen import to_screen
from whileback.showing.summary import summarize

__all__ = ["show_model"]

# A text of at most so many lines is shown whole.
_SCREEN = 40


def show_model(
    model: ir.Model, *, everything: bool = False, node: str | None = None, depth: int | None = None
) -> str:
    """Return a model as text: one screen, everything, down to a depth, or one node.

    Raises: ArgumentError if there is no such node, or arguments exclude each other.
    """
    if everything and (node is not None or depth is not None):
        raise ArgumentError("Show everything, or one node, or down to a depth: not both.")
    if depth is not None and depth < 0:
        raise ArgumentError(f"A depth of {depth} is no number of levels. Give one from 0.")
    if node is not None:
        return to_details(model, node, depth)
    if everything or depth is not None:
        return "\n".join(to_lines(model, depth))
    lines = list(islice(to_lines(model), _SCREEN + 1))
    return "\n".join(lines) if len(lines) <= _SCREEN else to_screen(summarize(model))
