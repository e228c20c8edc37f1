"""Losses at the end of a model: what they read is found, labels become inputs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.builder import Builder
from whileback.graph.scopes import definitions
from whileback.graph.shapes import FLOATS, describe, rank
from whileback.training.defaults import default
from whileback.training.losses import Loss
from whileback.training.predictions import Prediction, prediction

__all__ = ["Attached", "attach", "define_functions"]

_CLASSES = frozenset({ir.DataType.INT32, ir.DataType.INT64})


@dataclass(frozen=True)
class Attached:
    """The loss of all; the losses of which it is the sum, if there are several; what each reads.

    `objective` is what gradients are those of: the loss, or the loss times a `scale`.
    """

    loss: ir.Value
    parts: list[ir.Value]
    said: list[str]
    objective: ir.Value
    scale: ir.Value | None


def attach(op: Builder, losses: Sequence[Loss], scale: float | None = None) -> Attached:
    """Emit the losses behind a main graph, and add the labels to its inputs.

    With a scale, the loss is scaled by an input `loss_scale` FLOAT[] of this default.

    Raises: ArgumentError for an unknown output, or one that does not fit its loss.
    """
    parts, said = [], []
    for loss in losses:
        output = _output(op.graph, loss)
        found = prediction(op, output, loss.reads, loss.name)
        value = _classes_second(op, found, loss)
        label = value if loss.label is None else _label(op, loss, loss.label, value)
        result = loss.compute(op, op.widened(value), _read(op, loss, label))
        parts.append(result if loss.weight == 1 else op.Mul(result, float(loss.weight)))
        said.append(f"{loss.name} of {found.said}")
    total = parts[0] if len(parts) == 1 else op.Sum(*(op.cast(p, parts[0]) for p in parts))
    total = op.Identity(total)
    total.name = op.names.fresh("loss")
    total.shape = ir.Shape([])
    if len(parts) == 1:
        parts = []
    for index, part in enumerate(parts):
        part.name = op.names.fresh(f"loss_{index}")
    if scale is None:
        return Attached(total, parts, said, total, None)
    factor = default(op, "loss_scale", np.array(scale, np.float32))
    return Attached(total, parts, said, op.Mul(total, op.cast(factor, total)), factor)


def define_functions(model: ir.Model, losses: Sequence[Loss]) -> None:
    """Add to a model the functions that its losses call."""
    functions = [each.function for each in losses if each.function is not None]
    model.functions.update({function.identifier(): function for function in functions})
    model.opset_imports.update({function.domain: 1 for function in functions})


def _output(graph: ir.Graph, loss: Loss) -> ir.Value:
    """Return the value that a loss names, or the only output."""
    if loss.output is None:
        floats = [value for value in graph.outputs if value.dtype in FLOATS]
        if len(floats) == 1:
            return floats[0]
        listed = ", ".join(repr(value.name) for value in graph.outputs)
        raise ArgumentError(
            f"loss {loss.name!r} names no output, and model '{graph.name}' has {len(floats)} of "
            f"floats among {listed}. Say which with output= (on the command line "
            f"{loss.name}:OUTPUT)."
        )
    known = {str(value.name): value for value in definitions(graph) if value.name}
    if loss.output not in known:
        raise ArgumentError(
            f"loss {loss.name!r} names output '{loss.output}', but model '{graph.name}' has no "
            f"such value; {nearest(loss.output, known)}"
        )
    output = known[loss.output]
    if output.dtype not in FLOATS:
        raise ArgumentError(
            f"loss {loss.name!r} names output '{loss.output}', which is {describe(output)}: only "
            "floats have a loss. Name another output."
        )
    return output


def _classes_second(op: Builder, found: Prediction, loss: Loss) -> ir.Value:
    """Return the prediction with its classes along axis 1, the other axes in their order."""
    if not loss.of_classes:
        return found.value
    count = rank(found.value)
    axis = next((each for each in (loss.axis, found.axis) if each is not None), 1)
    if count is None:
        if axis == 1:
            return found.value
        raise ArgumentError(
            f"loss {loss.name!r} has its classes along axis {axis} of '{found.value.name}', whose "
            "rank is unknown. Give the output a shape."
        )
    if not -count <= axis < count or count < 2:
        raise ArgumentError(
            f"loss {loss.name!r} has its classes along axis {axis}, but '{found.value.name}' is "
            f"{describe(found.value)}. Give an axis with axis=, or name another output."
        )
    axis %= count
    order = [each for each in range(count) if each != axis]
    order.insert(1, axis)
    return found.value if axis == 1 else op.Transpose(found.value, perm=order)


def _label(op: Builder, loss: Loss, name: str, value: ir.Value) -> ir.Value:
    """Return the value that a loss compares with: of the model, or a new input."""
    for known in definitions(op.graph):
        if known.name == name:
            return _fitting(known, loss)
    label = ir.Value(name=op.names.fresh(name))
    like = value if loss.function is None else loss.function.inputs[1]
    label.type, label.shape = like.type, like.shape
    if loss.of_classes:
        label.type = ir.TensorType(ir.DataType.INT64)
        dims = None if value.shape is None else [*value.shape[:1], *value.shape[2:]]
        label.shape = None if dims is None else ir.Shape(dims)
    op.graph.inputs.append(label)
    return label


def _fitting(label: ir.Value, loss: Loss) -> ir.Value:
    """Refuse labels of floats where classes are meant, and the other way round."""
    wanted: Container[ir.DataType | None] = FLOATS
    kind = "floats"
    if loss.of_classes:
        wanted, kind = _CLASSES, "numbers of classes, INT64"
    elif loss.function is not None:
        wanted, kind = {loss.function.inputs[1].dtype}, describe(loss.function.inputs[1])
    if label.dtype not in wanted:
        raise ArgumentError(
            f"loss {loss.name!r} compares with '{label.name}', which is {describe(label)}, but "
            f"needs {kind}. Name another one with label=."
        )
    return label


def _read(op: Builder, loss: Loss, label: ir.Value) -> ir.Value:
    exact = loss.of_classes or loss.function is not None
    return label if exact else op.widened(label)
