"""One operator on the rows of all trips: the same operator on the stacks of these rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import onnx_ir as ir

from whileback.gradient.rules.inputs import optional
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard
from whileback.graph.shapes import rank, size

__all__ = ["on_stacks"]

ELEMENTWISE = frozenset(
    "Abs Add And Cast Ceil Clip Cos Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual Identity "
    "Less LessOrEqual Log Max Min Mul Neg Not Or Pow Reciprocal Relu Round Sigmoid Sign Sin Sinh "
    "Softplus Sqrt Sub Sum Tan Tanh Where Xor".split()
)

# Rows of more bytes go through the processor's caches faster one by one, and in less memory.
LARGE = 1024

Emit = Callable[[Builder, Mapping[ir.Value, ir.Value]], ir.Value]


def on_stacks(node: ir.Node, rows: Collection[ir.Value]) -> Emit | None:
    """Return how to emit what the node does, for all trips at once, or None if that is not known.

    Args:
        node: a node of a loop's body.
        rows: its inputs that differ from trip to trip; the stacks have the trips as axis 0.

    The returned function takes the stacks (or other values) to read instead of the node's inputs.
    """
    if len(node.outputs) != 1 or node.domain:
        return None
    if node.op_type in ELEMENTWISE:
        small = not _is_large(node.outputs[0])
        return _same(node) if small and _is_elementwise(node, rows) else None
    if node.op_type == "MatMul":
        return _same(node) if _is_batched(node, rows) else None
    if node.op_type in ("Squeeze", "Unsqueeze", "ReduceSum", "ReduceMean"):
        return _with_axes(node, rows)
    if node.op_type == "Transpose" and node.attributes.get_ints("perm", None) is not None:
        permutation = [0, *(axis + 1 for axis in node.attributes["perm"].as_ints())]
        return _same(node, perm=permutation)
    return None


def _same(node: ir.Node, **changed: Any) -> Emit:
    """The node itself, with other inputs; it may be gone by the time it is emitted again."""
    inputs = list(node.inputs)
    attributes = {a.name: a.value for a in node.attributes.values()} | changed

    def emit(op: Builder, pick: Mapping[ir.Value, ir.Value]) -> ir.Value:
        read = [None if value is None else pick.get(value, value) for value in inputs]
        return op.emit(node.op_type, read, attributes)[0]

    return emit


def _is_elementwise(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Rows of one rank, and nothing else of a larger one: broadcasting aligns the last axes."""
    ranks = {rank(value) for value in rows}
    if None in ranks or len(ranks) != 1:
        return False
    (count,) = ranks
    others = [rank(value) for value in node.inputs if value is not None and value not in rows]
    return all(other is not None and count is not None and other <= count for other in others)


def _is_large(row: ir.Value) -> bool:
    count = size(row)
    return count is not None and row.dtype is not None and count * row.dtype.itemsize > LARGE


def _is_batched(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Rows times a matrix, a matrix times rows that are matrices, or matrices row by row."""
    ranks = [rank(value) if value is not None else None for value in node.inputs]
    stacked = [value in rows for value in node.inputs]
    if None in ranks:
        return False
    A, B = (each or 0 for each in ranks)
    if all(stacked):
        return A == B and A >= 2
    return (A >= 1 and B == 2) if stacked[0] else (A == 2 and B >= 2)


def _with_axes(node: ir.Node, rows: Collection[ir.Value]) -> Emit | None:
    """Axes count from behind the trips."""
    axes = optional(node, 1)
    known = known_ints(axes)
    source = node.inputs[0]
    count = None if source is None else rank(source)
    if known is None or count is None or axes in rows:
        return None
    total = count + (len(known) if is_standard(node, "Unsqueeze") else 0)
    shifted = [axis % total + 1 for axis in known]
    attributes = {a.name: a.value for a in node.attributes.values()}

    def emit(op: Builder, pick: Mapping[ir.Value, ir.Value]) -> ir.Value:
        assert source is not None
        return op.emit(node.op_type, [pick.get(source, source), shifted], attributes)[0]

    return emit
