"""Rows sent to one of several tensors by their keys, and brought back."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    gradient_operator,
    lowering,
)
from whileback.caffe2.operators.rows import Segments, in_places, size_of, wide
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


def _parts(op: Emitter, keys: ir.Value, count: int) -> list[ir.Value]:
    """Return which keys belong to each part: those that leave its number when divided."""
    remainder = op.Mod(wide(op, keys), count)
    return [op.Equal(remainder, part) for part in range(count)]


def _split(
    op: Emitter, node: Operator, parts: Sequence[ir.Value], keys: ir.Value, others: list[ir.Value]
) -> list[list[ir.Value]]:
    """Return for each part its keys, with `pack_first_input` their quotients, and other rows."""
    first = keys
    if node.args.bool("pack_first_input", False):
        remainder = op.Mod(wide(op, keys), len(parts))
        first = op.cast(op.Div(op.Sub(wide(op, keys), remainder), len(parts)), keys)
    return [[op.Compress(X, part, axis=0) for X in (first, *others)] for part in parts]


def _rows(op: Emitter, X: ir.Value, axes: int) -> ir.Value:
    """Return X with so many axes as one."""
    if axes == 1:
        return X
    return op.Reshape(
        X, op.Concat(size_of(op, X, 0, axes), op.Shape(X, start=axes), axis=0), allowzero=1
    )


@lowering("Partition")
def partition(op: Emitter, node: Operator) -> list[ir.Value]:
    """Part p of each input has the rows whose key leaves p when divided by the number of parts."""
    inputs = node.tensors(len(node.inputs))
    axes = known_rank(node, inputs[0])
    keys, *others = (_rows(op, X, axes) for X in inputs)
    parts = _parts(op, keys, len(node.outputs) // len(inputs))
    return [X for rows in _split(op, node, parts, keys, others) for X in rows]


@lowering("LengthsPartition")
def lengths_partition(op: Emitter, node: Operator) -> list[ir.Value]:
    """As Partition, of segments: first come the lengths of what each part has of them."""
    lengths, keys, *others = node.tensors(len(node.inputs))
    parts = _parts(op, keys, len(node.outputs) // len(node.inputs))
    segments = Segments.of_lengths(op, lengths)
    left = [op.cast(segments.total(op, wide(op, part)), lengths) for part in parts]
    split = _split(op, node, parts, keys, others)
    return [X for own, rows in zip(left, split, strict=True) for X in (own, *rows)]


@lowering("GatherByKey")
def gather_by_key(op: Emitter, node: Operator) -> ir.Value:
    """The rows of parts in the order of the keys: what Partition splits, brought back."""
    keys, *parts = node.tensors(len(node.inputs))
    numbers = op.arange(op.dim(keys, 0))
    places = [op.Compress(numbers, part, axis=0) for part in _parts(op, keys, len(parts))]
    return in_places(op, op.dim(keys, 0), places, parts)


@gradient_operator("Partition", "LengthsPartition")
def partition_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> list[Gradient]:
    """dX is the gradients of its parts, brought back by the keys."""
    count = len(op.input)
    keys = op.input[1 if op.type == "LengthsPartition" else 0]
    found: list[Gradient] = []
    for index, X in enumerate(op.input):
        own = dys[index::count]
        if not any(own):
            found.append(None)
            continue
        given = [
            dy or grad.zeros_like(Y) for dy, Y in zip(own, op.output[index::count], strict=True)
        ]
        found.append(grad.add("GatherByKey", [keys, *given], f"{X}_grad"))
    return found


@gradient_operator("GatherByKey")
def gather_by_key_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """The gradients of the parts are dY, partitioned."""
    keys, *parts = op.input
    bases = [name for part in parts for name in (f"{part}_keys", f"{part}_grad")]
    found = grad.add_all("Partition", [keys, dys[0]], bases, pack_first_input=0)
    return [None, *found[1::2]]
