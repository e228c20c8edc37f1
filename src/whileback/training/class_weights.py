"""Weights of classes, by which a loss counts some labels more than others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder

__all__ = ["check_class_weights", "class_weights_of"]


def check_class_weights(weights: Sequence[float] | None) -> None:
    """Raise ArgumentError for what is no list of numbers from 0."""
    if weights is None:
        return
    found = np.asarray(weights)
    numbers = found.ndim == 1 and found.dtype.kind in "fiu"
    if not numbers or not np.all(np.isfinite(found) & (found >= 0)):
        raise ArgumentError(
            f"class_weights={weights!r} is no list of numbers from 0, one for each class, such as "
            "[1, 2.5]. Give one."
        )


def class_weights_of(
    op: Builder, weights: Sequence[float] | None, like: ir.Value
) -> ir.Value | None:
    """Return a constant [C]. Raises: ArgumentError if C is known, and there are not as many."""
    if weights is None:
        return None
    classes = None if like.shape is None else like.shape[1]
    if isinstance(classes, int) and classes != len(weights):
        raise ArgumentError(
            f"class_weights={list(weights)!r} has {len(weights)} numbers, but {like.name!r} has "
            f"{classes} classes. Give one for each."
        )
    return op.constant(np.asarray(weights), like.dtype)
