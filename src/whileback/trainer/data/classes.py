"""Labels that are numbers of classes, looked at before the first step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.scopes import is_standard
from whileback.trainer.data.fitting import Fit

__all__ = ["require_classes"]

_LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
# What a loss does to labels before it reads them, which leaves those of classes as they are.
_GUARDS = ("BitwiseAnd", "Where")


def require_classes(label: ir.Value, found: Fit) -> None:
    """Refuse labels that are the number of no class, of which a runtime would read anything.

    Raises: ArgumentError, which tells of the first of them. Where the model does not say how many
    classes there are, only negative ones are refused.
    """
    for node in _losses(label):
        wrong = found.array < 0
        classes = _classes(node)
        if classes is not None:
            wrong |= found.array >= classes
        ignored = node.attributes.get("ignore_index")
        if ignored is not None:
            wrong &= found.array != ignored.as_int()
        if wrong.any():
            raise ArgumentError(_message(found, np.argwhere(wrong)[0], classes))


def _losses(label: ir.Value) -> Iterator[ir.Node]:
    """Yield the nodes that compare with labels."""
    for node, index in label.uses():
        if is_standard(node, *_LOSSES) and index == 1:
            yield node
        elif is_standard(node, *_GUARDS):
            yield from _losses(node.outputs[0])


def _classes(node: ir.Node) -> int | None:
    """Return how many classes the scores of a loss have, if that is known."""
    scores = node.inputs[0]
    shape = None if scores is None else scores.shape
    size = None if shape is None or len(shape) < 2 else shape[1]
    return size if isinstance(size, int) else None


def _message(found: Fit, place: np.ndarray, classes: int | None) -> str:
    label = found.array[tuple(place)]
    index = ", ".join(map(str, place))
    known = "classes count from 0"
    if classes is not None:
        known = f"the model has {classes} classes, 0 to {classes - 1}"
    return (
        f"{found.said} has {label} at [{index}], but {known}. Correct that, or have it left out by "
        f"ignore_index={label}."
    )
