"""Which values of a model a step trains."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatchcase

import onnx_ir as ir

from whileback.errors import ArgumentError, UnsupportedError, nearest
from whileback.gradient.activity import dependents, reaching
from whileback.graph.scopes import is_standard, walk
from whileback.graph.shapes import FLOATS, HALVES, describe, rank, size
from whileback.graph.tensors import FROM_NODE

__all__ = ["fitted", "fitting", "listed", "tensors_held", "trained"]

# Inputs of operators that set something, and are no parameters: bounds, factors of sizes.
_SETTINGS = {
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "Dropout": (1,),
    "OneHot": (2,),
    "Pad": (2,),
    "QuantizeLinear": (1, 2),
    "Resize": (1, 2),
}


def listed(patterns: str | Sequence[str]) -> list[str]:
    """Return one pattern, or several, as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)


def fitting(
    patterns: Sequence[str],
    names: Sequence[str],
    argument: str,
    kind: str = "tensors that can be trained",
) -> list[str]:
    """Return the names that fit one of the patterns; `*`, `?` and `[…]` are as in a shell.

    Raises: ArgumentError for a pattern of an `argument` that none of the names fits.

    >>> fitting(["*.weight"], ["encoder.weight", "encoder.bias"], "trainable")
    ['encoder.weight']
    """
    for pattern in patterns:
        if not fitted([pattern], names):
            raise ArgumentError(
                f"{argument}= has {pattern!r}, which fits none of the names of {kind}; "
                f"{nearest(pattern, names)}"
            )
    return fitted(patterns, names)


def fitted(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that fit one of the patterns, of which some may fit nothing."""
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def tensors_held(graph: ir.Graph) -> dict[str, ir.Value]:
    """Return by name the float tensors that a graph in normal form holds, at any depth.

    Whether they were initializers or `Constant` nodes: exporters write weights as either.
    """
    return {name: value for name, value in graph.initializers.items() if value.dtype in FLOATS}


def trained(
    graph: ir.Graph,
    held: Mapping[str, ir.Value],
    loss: ir.Value,
    patterns: Sequence[str] | None,
    statistics: Container[ir.Value] = (),
    halves: bool = False,
) -> list[ir.Value]:
    """Return the values that a step trains.

    Args:
        graph: a model in normal form, with its loss.
        held: the tensors that the model itself holds.
        loss: a value of the graph.
        patterns: of names. None stands for all on which the loss depends, but for numbers (of no
            axes, or `Constant` nodes of one element) and settings of operators, such as bounds.
        statistics: of the data, which are never trained.
        halves: whether tensors of 16 bits may be trained.

    Raises:
        ArgumentError: a pattern fits nothing, or nothing is left to train.
        UnsupportedError: a parameter has 16 bits, in which small changes are lost.
    """
    chosen = trainable_for(graph, held, [loss], patterns, statistics)
    if not chosen:
        rounds = any(is_standard(node, "DequantizeLinear") for node in walk(graph))
        straight = "quantized='straight-through' (--quantized straight-through)"
        hint = f" Of a quantised model, say {straight}." if rounds else ""
        raise ArgumentError(
            f"The loss depends on no float tensor of model '{graph.name}' that could be trained. "
            f"Name some with trainable=, or make inputs initializers.{hint}"
        )
    narrow = [value for value in chosen if value.dtype in HALVES]
    if narrow and not halves:
        raise UnsupportedError(
            f"'{narrow[0].name}' is {describe(narrow[0])}: steps are taken in FLOAT or DOUBLE, "
            "since 16 bits lose small changes. Say precision='float16', which keeps parameters in "
            "FLOAT, or freeze these with trainable=."
        )
    return chosen


def trainable_for(
    graph: ir.Graph,
    held: Mapping[str, ir.Value],
    targets: Sequence[ir.Value],
    patterns: Sequence[str] | None,
    statistics: Container[ir.Value] = (),
) -> list[ir.Value]:
    """Return the tensors that can be trained for some targets; for arguments see `trained`.

    Raises: ArgumentError for a pattern that fits nothing.
    """
    candidates = {name: value for name, value in held.items() if value not in statistics}
    found = dependents(graph, candidates.values())
    reached = reaching(graph, targets, found)
    if patterns is None:
        settings = _settings(graph)
        free = (v for v in candidates.values() if not _is_number(v) and v not in settings)
        return [value for value in free if value in reached]
    able = [name for name, value in candidates.items() if value in reached]
    return [candidates[name] for name in fitting(patterns, able, "trainable")]


def _is_number(value: ir.Value) -> bool:
    """Tell whether a tensor is part of a formula, as the scale of an attention often is."""
    return rank(value) == 0 or (FROM_NODE in value.meta and size(value) == 1)


def _settings(graph: ir.Graph) -> set[ir.Value]:
    return {
        value
        for node in walk(graph)
        if is_standard(node, *_SETTINGS)
        for index, value in enumerate(node.inputs)
        if value is not None and index in _SETTINGS[node.op_type]
    }
