"""All parameters of a step as one vector, in an order that depends on their names alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.shapes import describe, static_shape
from whileback.training.differentiated import Differentiated
from whileback.training.interface import Interface, Part

__all__ = ["flatten", "joined", "parted"]


def flatten(work: Differentiated) -> list[Part]:
    """Put an input `parameters` [P] in place of all, and one vector in place of what they become.

    Raises: ArgumentError for parameters of several types.
    """
    order = sorted(work.parameters, key=lambda value: str(value.name))
    for value in order:
        if value.dtype != order[0].dtype:
            raise ArgumentError(
                f"flat=True joins all parameters, but '{order[0].name}' is {describe(order[0])}, "
                f"and '{value.name}' {describe(value)}. Convert them, or name some with trainable=."
            )
    layout = _layout(order)
    op, ends = work.op, [work.op.Reshape(work.next.pop(value), [-1]) for value in order]
    op.role, op.origin = "flat", ir.node("Parameters", [], name="parameters")
    vector = _vector(work, order)
    _take_apart(work, vector, order)
    work.next[vector] = op.Concat(*ends, axis=0)
    work.parameters = {vector: work.next[vector]}
    return layout


def _layout(order: Sequence[ir.Value]) -> list[Part]:
    """Return where each parameter is."""
    parts: list[Part] = []
    offset = 0
    for value in order:
        part = Part(str(value.name), list(static_shape(value) or ()), offset)
        parts.append(part)
        offset += part.size
    return parts


def _vector(work: Differentiated, order: Sequence[ir.Value]) -> ir.Value:
    """Return the input that holds all parameters, at first what they are by default."""
    tensors = [value.const_value for value in order]
    first = np.concatenate([tensor.numpy().ravel() for tensor in tensors if tensor is not None])
    vector = work.default("parameters", first)
    inputs = work.graph.inputs
    inputs.insert(min(inputs.index(value) for value in order), inputs.pop())
    return vector


def _take_apart(work: Differentiated, vector: ir.Value, order: Sequence[ir.Value]) -> None:
    """Let all that reads a parameter read its part of the vector."""
    op, graph = work.op, work.graph
    start = graph[0]
    sizes = [int(np.prod(static_shape(value) or ())) for value in order]
    parts = op.emit("Split", [vector, sizes], {"axis": 0}, outputs=len(order))
    shaped = []
    for value, part in zip(order, parts, strict=True):
        shaped.append(op.Reshape(part, op.shape_of(value), allowzero=1))
        value.replace_all_uses_with(shaped[-1])
        graph.inputs.remove(value)
        del graph.initializers[str(value.name)]
    for node in (parts[0].producer(), *(value.producer() for value in shaped)):
        assert node is not None
        graph.remove(node)
        graph.insert_before(start, node)


def joined(known: Interface, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return parameters, by their names, as the vector [P] of a step made with `flat=True`.

    Raises: ArgumentError for a parameter that lacks, has another shape, or is none.
    """
    names = [part.name for part in known.flat]
    if set(arrays) != set(names):
        raise ArgumentError(
            f"The vector joins {_quoted(names)}, but {_quoted(sorted(arrays))} are given. Give an "
            "array for each of these."
        )
    for part in known.flat:
        if arrays[part.name].shape != tuple(part.shape):
            raise ArgumentError(
                f"'{part.name}' has shape {list(arrays[part.name].shape)}, but in the vector "
                f"{part.shape}. Give it that shape."
            )
    return np.concatenate([arrays[name].ravel() for name in names])


def parted(known: Interface, vector: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parts of a vector [P] of a step made with `flat=True`, by name, as views.

    Raises: ArgumentError for a vector of another length.
    """
    length = sum(part.size for part in known.flat)
    if vector.shape != (length,):
        raise ArgumentError(
            f"The vector has shape {list(vector.shape)}, but the parameters are {length} numbers. "
            f"Give a vector of shape [{length}]."
        )
    return {
        part.name: vector[part.offset : part.offset + part.size].reshape(part.shape)
        for part in known.flat
    }


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
