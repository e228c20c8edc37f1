"""All parameters of a step as one vector, in an order that depends on their names alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.moving import put_first, taken_out
from whileback.graph.shapes import describe, static_shape
from whileback.signatures import require_types
from whileback.training.defaults import default
from whileback.training.differentiated import Differentiated
from whileback.training.interface import Interface, Part

__all__ = ["flatten", "join", "joined", "parted"]

_NONE: Mapping[ir.Value, ir.Value] = {}


def flatten(
    work: Differentiated, averages: Mapping[ir.Value, ir.Value] = _NONE
) -> tuple[list[Part], dict[ir.Value, ir.Value]]:
    """Put one vector in place of all parameters and one of what they become; so with averages.

    Returns: where each parameter is, and by the vector of the parameters that of the averages.

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
    vector = _join_with_next(work, "parameters", order)
    work.parameters = {vector: work.next[vector]}
    if not averages:
        return layout, {}
    kept = [averages[value] for value in order]
    average = _join_with_next(work, f"{vector.name}_average", kept)
    work.state = [*(value for value in work.state if value not in kept), average]
    return layout, {vector: average}


def _layout(order: Sequence[ir.Value]) -> list[Part]:
    """Return where each parameter is."""
    parts: list[Part] = []
    offset = 0
    for value in order:
        part = Part(str(value.name), list(static_shape(value) or ()), offset)
        parts.append(part)
        offset += part.size
    return parts


def _join_with_next(work: Differentiated, name: str, order: Sequence[ir.Value]) -> ir.Value:
    """Join values that are kept, and what they become."""
    op = work.op
    op.role, op.origin = "flat", ir.node("Vector", [], name=name)
    ends = [op.Reshape(work.next.pop(value), [-1]) for value in order]
    vector = join(op, name, order)
    work.next[vector] = op.Concat(*ends, axis=0)
    return vector


def join(op: Builder, name: str, order: Sequence[ir.Value]) -> ir.Value:
    """Put one vector in place of inputs that have defaults, in front of what reads them."""
    tensors = [value.const_value for value in order]
    first = np.concatenate([tensor.numpy().ravel() for tensor in tensors if tensor is not None])
    vector = default(op, name, first)
    inputs, start = op.graph.inputs, op.inside("start")
    inputs.insert(min(inputs.index(value) for value in order), inputs.pop())
    sizes = [int(np.prod(static_shape(value) or ())) for value in order]
    parts = start.emit("Split", [vector, sizes], {"axis": 0}, outputs=len(order))
    for value, part in zip(order, parts, strict=True):
        value.replace_all_uses_with(start.Reshape(part, start.shape_of(value), allowzero=1))
        inputs.remove(value)
        del op.graph.initializers[str(value.name)]
    put_first(op.graph, taken_out(start.graph))
    return vector


def joined(known: Interface, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return parameters, by their names, as the vector [P] of a step made with `flat=True`.

    Raises: ArgumentError for a parameter that lacks, has another shape, or is none.
    """
    require_types(joined, locals())
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
    require_types(parted, locals())
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
