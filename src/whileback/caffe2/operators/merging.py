"""Features of several kinds merged into one list for each example.

A feature is a number (`Scalar`), a list of numbers (`List`) or a map (`Map`). `Single` operators
take a feature as a tensor with a row for each example, and a mask of those that have it; `Multi`
operators take lists of features, as these operators return them: how many features each example
has, their keys, then their values, or their lengths and all values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    gradient_operator,
    lowering,
)
from whileback.caffe2.operators.rows import (
    Segments,
    in_places,
    places_within,
    rows_of_ranges,
    starts,
    unmasked,
    wide,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

T = TypeVar("T")

KINDS = {"Scalar": 0, "List": 1, "Map": 2}
SINGLE = [f"MergeSingle{kind}FeatureTensors" for kind in KINDS]
MULTI = [f"MergeMulti{kind}FeatureTensors" for kind in KINDS]


def _groups(inputs: Sequence[T], size: int) -> list[Sequence[T]]:
    """Return the inputs that belong to each of the sources."""
    return [inputs[start : start + size] for start in range(0, len(inputs), size)]


def _places(op: Emitter, counts: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the places in the merged list of the features of each source, given their counts.

    The features of an example lie together, those of the first source first.
    """
    first = starts(op, _sum(op, counts))
    found = []
    for count in counts:
        segments = Segments.of_lengths(op, count)
        found.append(op.Add(segments.spread(op, first), places_within(op, segments)))
        first = op.Add(first, count)
    return found


def _sum(op: Emitter, counts: Sequence[ir.Value]) -> ir.Value:
    return reduce(op.Add, counts)


def _merged(op: Emitter, places: Sequence[ir.Value], parts: Sequence[ir.Value]) -> ir.Value:
    count = _sum(op, [op.dim(part, 0) for part in parts])
    return in_places(op, count, places, parts)


def _value_places(
    op: Emitter, places: Sequence[ir.Value], lengths: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return the places among all values of those of each source's features."""
    first = starts(op, _merged(op, places, lengths))
    pairs = zip(places, lengths, strict=True)
    return [rows_of_ranges(op, op.Gather(first, own), length) for own, length in pairs]


def _merge(op: Emitter, groups: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """Merge lists of features: counts, keys, then values, or lengths and values."""
    present, keys, lengths, *values = zip(*groups, strict=True)
    counts = [wide(op, each) for each in present]
    places = _places(op, counts)
    found = [op.cast(_sum(op, counts), ir.DataType.INT32)]
    found += [_merged(op, places, parts) for parts in (keys, lengths)]
    if values:
        inner = _value_places(op, places, lengths)
        found += [_merged(op, inner, parts) for parts in values]
    return found


@lowering(*MULTI)
def merge_multi(op: Emitter, node: Operator) -> list[ir.Value]:
    """The features of all sources, example by example."""
    groups = _groups(node.tensors(len(node.inputs)), 3 + _kind(node.type))
    return _merge(op, groups)


@lowering(*SINGLE)
def merge_single(op: Emitter, node: Operator) -> list[ir.Value]:
    """As of lists of features with a single one, whose key is in `feature_ids`."""
    groups = []
    for group, key in zip(
        _groups(node.tensors(len(node.inputs)), 2 + _kind(node.type)),
        node.args.ints("feature_ids"),
        strict=True,
    ):
        *rows, mask = group
        keys = op.Expand(key, op.ReduceSum(wide(op, mask), keepdims=1))
        groups.append([mask, keys, op.Compress(rows[0], mask, axis=0), *rows[1:]])
    return _merge(op, groups)


def _kind(op_type: str) -> int:
    """Return how many inputs a source has more than one of scalars."""
    return next(more for kind, more in KINDS.items() if kind in op_type)


@lowering(*(f"{name}Gradient" for name in (*SINGLE, *MULTI)))
def merge_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of the sources' values: those of dY at their places."""
    *inputs, dY = node.tensors(len(node.inputs))
    scalar, single = "Scalar" in node.type, "Single" in node.type
    groups = _groups(inputs, 1 if scalar else 2)
    masks = [group[-1] for group in groups]
    places = _places(op, [wide(op, group[-1 if single else 0]) for group in groups])
    if not scalar:
        lengths = [op.Compress(*group, axis=0) if single else group[1] for group in groups]
        places = _value_places(op, places, lengths)
    rows = [op.Gather(dY, own) for own in places]
    if single and scalar:
        return [unmasked(op, *pair) for pair in zip(masks, rows, strict=True)]
    return rows


@gradient_operator(*SINGLE, *MULTI)
def merge_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> list[Gradient]:
    """The gradients of the values from that of the merged values, which come last."""
    scalar, single = "Scalar" in op.type, "Single" in op.type
    size = _kind(op.type) + (2 if single else 3)
    read = ([-1] if scalar else [0, -1]) if single else ([0] if scalar else [0, 2])
    values = size - (2 if single else 1)
    groups = _groups(list(op.input), size)
    inputs = [str(group[column]) for group in groups for column in read]
    of = [str(group[values]) for group in groups]
    given = grad.emit(f"{op.type}Gradient", [*inputs, str(dys[-1])], of=of, like=op)
    found: list[Gradient] = [None] * len(op.input)
    found[values::size] = given
    return found


@lowering("MergeDenseFeatureTensors")
def merge_dense(op: Emitter, node: Operator) -> list[ir.Value]:
    """As of single scalars, which are the columns of X, and of a mask."""
    X, mask = node.tensors(2)
    keys = op.constant(np.array(node.args.ints("feature_ids"), np.int64))
    counts = op.ReduceSum(wide(op, mask), [1], keepdims=0)
    values = op.Compress(op.Reshape(X, [-1]), op.Reshape(mask, [-1]), axis=0)
    columns = op.Gather(op.NonZero(mask), 1)
    return [op.cast(counts, ir.DataType.INT32), op.Gather(keys, columns), values]
