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
    pending: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in pending:
        yield from graph.inputs
        for node in graph:
            yield from node.outputs
            for attribute in node.attributes.values():
                if attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.GRAPH:
                    pending.append(attribute.as_graph())
                elif attribute.type == ir.AttributeType.GRAPHS:
                    pending += attribute.as_graphs()
