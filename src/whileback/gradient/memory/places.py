"""Places that are told by the number of the trip."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.rules.inputs import required
from whileback.graph.constants import known_ints
from whileback.graph.scopes import LoopView, behind_identity, is_standard

__all__ = ["known", "offset", "summand"]


def known(value: ir.Value | None) -> int | None:
    """Return the only element of a value if it is known."""
    elements = known_ints(value)
    return elements[0] if elements is not None and len(elements) == 1 else None


def offset(view: LoopView, value: ir.Value) -> int | None:
    """Return what a value of a body has more than the number of the trip, if that is constant."""
    value = behind_identity(value)
    if value.dtype not in (ir.DataType.INT64, ir.DataType.INT32):
        return None
    if value is view.trip:
        return 0
    for carry in view.carries:
        if carry.input is value:
            after = summand(behind_identity(carry.output))
            counts = after is not None and after[1] == 1 and behind_identity(after[0]) is value
            return known(carry.initial) if counts else None
    node = value.producer()
    if node is not None and is_standard(node, "Unsqueeze", "Squeeze", "Reshape", "Cast"):
        return offset(view, required(node))
    more = summand(value)
    before = None if more is None else offset(view, more[0])
    return None if more is None or before is None else before + more[1]


def summand(value: ir.Value) -> tuple[ir.Value, int] | None:
    """Return a value and a constant of which a value is the sum."""
    node = value.producer()
    if node is None or not is_standard(node, "Add", "Sub"):
        return None
    a, b = required(node, 0), required(node, 1)
    if (number := known(b)) is not None:
        return a, number if node.op_type == "Add" else -number
    number = known(a) if node.op_type == "Add" else None
    return None if number is None else (b, number)
