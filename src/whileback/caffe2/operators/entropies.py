"""Logarithms of probabilities, and what belongs to labels."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.reading.emitter import Emitter
from whileback.graph.shapes import rank

__all__ = ["LEAST_PROBABILITY", "at_labels", "bounded", "column", "logarithm", "picked"]

# The least probability whose logarithm is taken.
LEAST_PROBABILITY = 1e-20


def bounded(op: Emitter, P: ir.Value) -> ir.Value:
    """Return probabilities, none of them 0."""
    return op.Max(P, LEAST_PROBABILITY)


def logarithm(op: Emitter, P: ir.Value) -> ir.Value:
    """Return log P, for P = 0 that of the least probability."""
    return op.Log(bounded(op, P))


def column(op: Emitter, values: ir.Value) -> ir.Value:
    """Return a number for each example as a matrix of one column."""
    return op.Unsqueeze(values, [1]) if rank(values) == 1 else op.Reshape(values, [-1, 1])


def picked(op: Emitter, P: ir.Value, labels: ir.Value) -> ir.Value:
    """Return P[i, labels[i]] for each row, with one column."""
    return op.GatherElements(P, column(op, labels), axis=1)


def at_labels(op: Emitter, labels: ir.Value, P: ir.Value) -> ir.Value:
    """Return ones at the labels, along axis 1, and zeros elsewhere, in the shape of P."""
    labels = op.cast(labels, ir.DataType.INT64)
    return op.OneHot(labels, op.dim(P, 1), op.constant([0.0, 1.0], P.dtype), axis=1)
