"""How the second operand of an elementwise operator is laid along the first one.

Without `broadcast=1` the shapes are matched from the back, both ways, as in NumPy and ONNX. With
it, which older nets have, B's axes stand at A's axes from `axis` on (`axis_str` names one of the
letters of `order`), or at A's last ones.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.graph.shapes import size

__all__ = ["axes_behind", "axes_from", "behind", "operands"]


def operands(op: Emitter, node: Operator) -> tuple[ir.Value, ir.Value]:
    """Return the two operands in shapes that ONNX's rules broadcast as the operator does."""
    A, B = node.tensors(2)
    return A, behind(op, B, axes_behind(node, A, B))


def behind(op: Emitter, value: ir.Value, axes: list[int]) -> ir.Value:
    """Return the value with axes of size 1 inserted."""
    return op.Unsqueeze(value, axes) if axes else value


def axes_behind(node: Operator, A: ir.Value, B: ir.Value) -> list[int]:
    """Return the axes of size 1 that B lacks behind its own to be matched with A from the back.

    Raises: NetDefError if B does not fit there, or if a rank is needed that is not known.
    """
    return axes_from(node, A, B) if node.args.bool("broadcast", False) else []


def axes_from(node: Operator, A: ir.Value, B: ir.Value) -> list[int]:
    """Return the same for an operator to which `axis` always applies."""
    axis = _axis(node)
    if axis is None or size(B) == 1:
        return []
    own, whole = known_rank(node, B), known_rank(node, A)
    if own > whole:
        raise NetDefError(
            f"{label(node.proto)} lays a tensor of rank {own} along one of rank {whole}. "
            "Swap them, or leave out the argument 'broadcast'."
        )
    if not 0 <= axis <= whole - own:
        raise NetDefError(
            f"{label(node.proto)} lays a tensor of rank {own} along the axes from {axis} on of one "
            f"of rank {whole}. Its argument 'axis' must be from 0 to {whole - own}."
        )
    return list(range(own, whole - axis))


def _axis(node: Operator) -> int | None:
    """Return the axis of A at which B begins, None where B ends with A."""
    letter = node.args.string("axis_str", "")
    if not letter:
        axis = node.args.int("axis", -1)
        return None if axis == -1 else axis
    order = node.args.string("order", "NCHW")
    if len(letter) != 1 or letter not in order:
        raise NetDefError(
            f"{label(node.proto)} has axis_str '{letter}', which is no letter of order '{order}'."
        )
    return order.index(letter)
