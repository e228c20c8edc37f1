"""The gradient of `TensorScatter`, which writes into the caches of attention."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Builder
from whileback.graph.shapes import describe, rank

Triple = tuple[ir.Value | None, ir.Value | None, None]


@rule("TensorScatter")
def tensor_scatter(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> Triple:
    """Y is a cache X with rows U written to it: dX is dY with zeros there, and dU what is there."""
    X, U, write = required(node), required(node, 1), optional(node, 2)
    axis = node.attributes.get_int("axis", -2)
    dX = dU = None
    if X in op.active:
        mode = node.attributes.get_string("mode", "linear")
        dX = op.TensorScatter(dY, op.zeros_like(U), write, mode=mode, axis=axis)
    if U in op.active:
        places = op.Expand(_places(op, node, axis), op.shape_of(U))
        dU = op.GatherElements(dY, places, axis=axis)
    return dX, dU, None


def _places(op: Builder, node: ir.Node, axis: int) -> ir.Value:
    """Return where rows are written along the axis, of the rank of the cache."""
    X, U, write = required(node), required(node, 1), optional(node, 2)
    count = rank(X) or rank(U)
    if count is None:
        raise UnsupportedError(
            f"Node '{node.name}' (TensorScatter) has an input '{X.name}' of unknown rank "
            f"({describe(X)}), and its gradient needs it. "
            "Declare the shape of the input; its dimensions may be symbols."
        )
    axis %= count
    rows = op.Reshape(op.arange(op.dim(U, axis)), [-1, *[1] * (count - 1 - axis)])
    if write is None:
        return rows
    rows = op.Add(op.Unsqueeze(write, list(range(1, count))), rows)
    circular = node.attributes.get_string("mode", "linear") == "circular"
    return op.Mod(rows, op.dim(X, axis)) if circular else rows
