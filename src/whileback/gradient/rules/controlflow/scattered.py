"""What trips add at places of one tensor, such as the rows of X that they read: once, not in each.

The gradient of `x_t = X[i_t]` is the sum over trips of zeros with one row, `dX[i_t] += dx_t`. The
rows and their places are stacked, and added up after the loop: a trip costs no more than its row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.tensor.places import add_at, put_back
from whileback.graph.builder import Builder
from whileback.graph.constants import known_floats
from whileback.graph.scopes import is_standard
from whileback.graph.shapes import rank, size, static_shape

__all__ = ["Finish", "adds_amid_zeros", "in_a_row", "scatter_stacks"]

Finish = Callable[[Builder, Sequence[ir.Value]], ir.Value]

# A tensor of no more than so many times what a trip adds is added up in every trip: that takes
# less memory than to stack, and about as long.
FEW = 4


def adds_amid_zeros(node: ir.Node) -> bool:
    """Tell whether the node gives zeros with updates at places, each added to what is there."""
    if not is_standard(node, "ScatterND", "ScatterElements") or not _is_zero(required(node)):
        return False
    if node.attributes.get_string("reduction", "none") == "add":
        return True
    indices, axis = required(node, 1), node.attributes.get_int("axis", 0)
    if node.op_type == "ScatterND":
        return rank(indices) == 1
    dims = static_shape(indices)
    return dims is not None and dims[axis] == 1


def _is_zero(value: ir.Value) -> bool:
    node = value.producer()
    if node is not None and is_standard(node, "ConstantOfShape"):
        filling = node.attributes.get("value")
        return filling is None or not filling.as_tensor().numpy().any()
    if node is not None and is_standard(node, "Expand"):
        value = required(node)
    known = known_floats(value)
    return known is not None and not any(known)


def scatter_stacks(node: ir.Node) -> Finish | None:
    """Return how to add up what such a node gives, from the stacks of its indices and updates."""
    zeros = required(node)
    whole, part = size(zeros), size(required(node, 2))
    count = rank(zeros)
    if count is None or (whole is not None and part is not None and whole <= FEW * part):
        return None
    if node.op_type == "ScatterND":
        return _parts(zeros)
    return _elements(zeros, count, node.attributes.get_int("axis", 0) % count)


def _parts(zeros: ir.Value) -> Finish:
    """Σ ScatterND(0, I, U): each part in U is added at its coordinates in I, of all trips."""

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        places, parts = stacks
        return put_back(op, zeros, parts, lambda numbers: op.GatherND(numbers, places))

    return finish


def _elements(zeros: ir.Value, count: int, axis: int) -> Finish:
    """Σ ScatterElements(0, I, U) is one of them, with the I and U of all trips along the axis."""

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        places, elements = (in_a_row(op, stack, count, axis) for stack in stacks)
        return add_at(op, op.shape_of(zeros), places, elements, axis)

    return finish


def in_a_row(op: Builder, stack: ir.Value, count: int, axis: int) -> ir.Value:
    """Return the rows of a stack, of so many axes, one after the other along one of these."""
    order = [*range(1, axis + 1), 0, *range(axis + 1, count + 1)]
    moved = op.Transpose(stack, perm=order) if axis else stack
    dims = [op.dim(moved, each) for each in range(count + 1)]
    dims[axis : axis + 2] = [op.Mul(*dims[axis : axis + 2])]
    return op.Reshape(moved, op.Concat(*dims, axis=0), allowzero=1)
