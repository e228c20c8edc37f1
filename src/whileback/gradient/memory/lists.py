"""Sequences of which trips read elements: joined once before the loop, and read as a tensor.

The gradient of an element is a whole sequence, that of a row of a tensor no more than a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.cleanup import discard
from whileback.graph.containers import is_sequence
from whileback.graph.moving import taken_out
from whileback.graph.scopes import captures, is_standard, loop_view, walk
from whileback.graph.shapes import rank, static_shape

__all__ = ["FLOATS", "joined", "read_as_tensors"]

FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


def read_as_tensors(op: Builder, loops: Sequence[ir.Node]) -> None:
    """Let the loops of a main graph read rows in the place of elements that are all alike."""
    for node in loops:
        if node.graph is not op.graph:
            continue
        body = loop_view(node).body
        for value in captures(body):
            nodes = [each for each in walk(body) if _reads(each, value)]
            if nodes and is_sequence(value) and _is_alike(value):
                _read_rows(op, node, value, nodes)


def joined(op: Builder, sequence: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Return the elements of a sequence, which may be empty, as rows of a tensor."""
    assert sequence.dtype is not None
    nothing = np.zeros((0, *dims), sequence.dtype.numpy())
    (rows,) = op.either(
        op.Greater(op.SequenceLength(sequence), 0),
        lambda inside: [inside.ConcatFromSequence(sequence, axis=0, new_axis=1)],
        lambda inside: [inside.constant(nothing)],
    )
    rows.shape = ir.Shape([op.shapes.new_dim(), *dims])
    return rows


def _reads(node: ir.Node, value: ir.Value) -> bool:
    if not is_standard(node, "SequenceAt") or node.inputs[0] is not value:
        return False
    return node.inputs[1] is not None and rank(node.inputs[1]) == 0


def _is_alike(sequence: ir.Value) -> bool:
    """Tell whether all elements are floats of one shape, and not empty."""
    dims = static_shape(sequence)
    return sequence.dtype in FLOATS and dims is not None and math.prod(dims) > 0


def _read_rows(op: Builder, loop: ir.Node, sequence: ir.Value, nodes: Sequence[ir.Node]) -> None:
    """Join a sequence, which may be empty, and let nodes in a loop read rows of that."""
    apart = op.inside("rows")
    apart.origin, apart.role = loop, "rows"
    assert isinstance(loop.graph, ir.Graph)
    rows = joined(apart, sequence, static_shape(sequence) or ())
    loop.graph.insert_before(loop, taken_out(apart.graph))
    for node in nodes:
        inside = op.inside("row")
        inside.origin, inside.role = node, "row"
        row = inside.Gather(rows, node.inputs[1])
        assert isinstance(node.graph, ir.Graph)
        node.graph.insert_before(node, taken_out(inside.graph))
        node.outputs[0].replace_all_uses_with(row, replace_graph_outputs=True)
        discard(node.graph, node)
