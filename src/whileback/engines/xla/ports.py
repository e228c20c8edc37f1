"""Sequences and optionals as a program is given them, and gives them back: array by array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.engines.xla.optional import ABSENT

__all__ = ["as_given", "put_together", "taken_apart"]


def taken_apart(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that are arrays: those that are not are told by their names."""
    arrays: dict[str, Any] = {}
    for name, argument in arguments.items():
        if argument is None:
            arrays[_absent(name)] = np.zeros(0)
        elif isinstance(argument, list):
            arrays.update({_element(name, k): array for k, array in enumerate(argument)})
        else:
            arrays[name] = argument
    return arrays


def put_together(name: str, kind: ir.TypeProtocol | None, arrays: Mapping[str, Any]) -> Any:
    """Return what an input is given: an array, a list, `ABSENT`, or None if it has a default."""
    if _absent(name) in arrays:
        return ABSENT
    if name in arrays:
        return arrays[name]
    if isinstance(kind, ir.OptionalType):
        kind = kind.elem_type
    if not isinstance(kind, ir.SequenceType):
        return None
    elements: list[Any] = []
    while (element := _element(name, len(elements))) in arrays:
        elements.append(arrays[element])
    return elements


def as_given(output: Any) -> Any:
    """Return an output in NumPy's arrays: lists of them for sequences, None for no element."""
    if isinstance(output, list):
        return [as_given(element) for element in output]
    return None if output is ABSENT else np.asarray(output)


def _absent(name: str) -> str:
    return f"{name} without an element"


def _element(name: str, place: int) -> str:
    return f"{name}[{place}]"
