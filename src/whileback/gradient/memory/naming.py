"""Loops as the user names them: by their node, or by one of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import onnx_ir as ir

from whileback.errors import ArgumentError, nearest

__all__ = ["by_loop"]

T = TypeVar("T")


def by_loop(loops: Sequence[ir.Node], given: Mapping[str, T], argument: str) -> dict[ir.Node, T]:
    """Return by loop what is given by name.

    Raises:
        ArgumentError: no loop has that name, or a loop is named twice.
    """
    known = {name: node for node in loops for name in [node.name, *(v.name for v in node.outputs)]}
    found: dict[ir.Node, T] = {}
    for name, meant in given.items():
        if name not in known:
            hint = (
                nearest(name, [str(each) for each in known]) if known else "the model has no loops"
            )
            raise ArgumentError(
                f"{argument}= names '{name}', but no loop of the model has that name or an output "
                f"of that name; {hint}"
            )
        if known[name] in found:
            raise ArgumentError(
                f"{argument}= names loop '{known[name].name}' twice, once as '{name}': name it "
                "once."
            )
        found[known[name]] = meant
    return found
