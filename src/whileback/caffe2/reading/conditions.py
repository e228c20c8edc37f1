"""The conditions of `If` and of loops."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.reading.emitter import Emitter
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.graph.shapes import describe, size

__all__ = ["check_one_element", "first", "first_element", "only_element"]


def check_one_element(reader: Reader, step: Step, name: str) -> ir.Value:
    """Return the tensor in a condition's blob.

    Raises: NetDefError if it is known not to have one element.
    """
    value = reader.tensor(step.proto, name)
    if size(value) not in (1, None):
        raise NetDefError(
            f"{label(step.proto)} needs one element in its condition '{name}', which is "
            f"{describe(value)}."
        )
    return value


def only_element(reader: Reader, step: Step, name: str) -> ir.Value:
    """Return what a condition with one element is, as BOOL[].

    Raises: NetDefError if its type is not BOOL, or if it is known not to have one element.
    """
    return reader.op.scalar(_bool(step, name, check_one_element(reader, step, name)))


def first_element(reader: Reader, step: Step, name: str) -> ir.Value:
    """Return what the first element of a condition is, as BOOL[].

    Raises: NetDefError if its type is not BOOL, or if it is known to have no element.
    """
    value = _bool(step, name, reader.tensor(step.proto, name))
    if size(value) == 0:
        raise NetDefError(f"{label(step.proto)} finds no element in its condition '{name}'.")
    return first(reader.op, value)


def first(op: Emitter, value: ir.Value) -> ir.Value:
    """Return the first element of a tensor."""
    return op.scalar(value) if size(value) == 1 else op.Gather(op.Reshape(value, [-1]), 0)


def _bool(step: Step, name: str, value: ir.Value) -> ir.Value:
    if value.dtype != ir.DataType.BOOL:
        raise NetDefError(
            f"{label(step.proto)} needs a BOOL as its condition, but '{name}' is "
            f"{describe(value)}. Compare it, or cast it to bool."
        )
    return value
