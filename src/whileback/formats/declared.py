"""What a model declares of its values that no value can be: runtimes pass over it, too."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

__all__ = ["forget_impossible"]

# What NumPy's arrays have at most.
MOST_AXES = 64


def forget_impossible(model: ir.Model) -> None:
    """Let what is declared impossibly be unknown: negative sizes, too many axes, type 0."""
    for value in _values(model):
        if value.type is not None and value.dtype == ir.DataType.UNDEFINED:
            value.type = None
        shape = value.shape
        if shape is None:
            continue
        if len(shape) > MOST_AXES:
            value.shape = None
        elif any(isinstance(dim, int) and dim < 0 for dim in shape):
            dims = [None if isinstance(dim, int) and dim < 0 else dim for dim in shape]
            value.shape = ir.Shape(dims)


def _values(model: ir.Model) -> Iterator[ir.Value]:
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        yield from graph.inputs
        for node in graph.all_nodes():
            yield from node.outputs
        for inner in graph.subgraphs():
            yield from inner.inputs
