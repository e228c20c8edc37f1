"""Lists of ids: made unique, hashed, merged."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.operators.rows import Segments, wide
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label

# The hash of a number is its bytes, least first, as digits (with a sign) to this base; it starts
# from the seed times a constant. All of it wraps around as the number's type does.
BASE = 65537
SEED_FACTOR = 0xDEADBEEF


@lowering("Unique")
def unique(op: Emitter, node: Operator) -> list[ir.Value]:
    """The ids in order, each once, and for each id given which of them it is."""
    (ids,) = node.tensors(1)
    found, _, places, _ = op.emit("Unique", [wide(op, ids)], {"sorted": 1}, outputs=4)
    return [op.cast(found, ids), op.cast(places, ir.DataType.INT32)]


@lowering("IndexHash")
def index_hash(op: Emitter, node: Operator) -> ir.Value:
    """Y = hash(id) modulo `modulo`."""
    (ids,), modulo = node.tensors(1), node.args.int("modulo")
    if modulo < 1:
        raise NetDefError(f"{label(node.proto)} has 'modulo' {modulo}; it must be 1 or more.")
    size = 4 if ids.dtype == ir.DataType.INT32 else 8
    digits = range(size)
    shifts = op.constant(np.array([8 * digit for digit in digits], np.uint64))
    spread = op.Unsqueeze(op.Cast(ids, to=int(ir.DataType.UINT64)), [-1])
    shifted = op.BitShift(spread, shifts, direction="RIGHT")
    digit = op.Cast(shifted, to=int(ir.DataType.INT8))
    powers = op.constant(np.array([_wrapped(BASE ** (size - 1 - each)) for each in digits]))
    start = op.constant(_wrapped(node.args.int("seed", 0) * SEED_FACTOR * BASE**size))
    # Not `ReduceSum`: ONNX Runtime 1.32 rounds its large integers.
    total = op.MatMul(wide(op, digit), powers)
    hashed = wide(op, op.cast(op.Add(total, start), ids))
    return op.cast(op.Mod(hashed, modulo), ids)


def _wrapped(number: int) -> np.int64:
    """Return a number as INT64 holds it."""
    return np.uint64(number % 2**64).astype(np.int64)


@lowering("MergeIdLists")
def merge_id_lists(op: Emitter, node: Operator) -> list[ir.Value]:
    """The union of several lists of ids, segment by segment, in order: lengths and ids."""
    inputs = node.tensors(len(node.inputs))
    pairs = [
        op.Concat(
            op.Unsqueeze(Segments.of_lengths(op, lengths).ids, [1]),
            op.Unsqueeze(wide(op, ids), [1]),
            axis=1,
        )
        for lengths, ids in zip(inputs[::2], inputs[1::2], strict=True)
    ]
    found = op.emit("Unique", [op.Concat(*pairs, axis=0)], {"sorted": 1, "axis": 0}, outputs=4)[0]
    segments = Segments.of_ids(op, op.Gather(found, 0, axis=1), op.dim(inputs[0], 0))
    merged = op.Gather(found, 1, axis=1)
    return [op.cast(segments.lengths, ir.DataType.INT32), op.cast(merged, inputs[1])]


@lowering("DenseVectorToIdList")
def dense_vector_to_id_list(op: Emitter, node: Operator) -> list[ir.Value]:
    """How many elements of each row are not 0 when 1/2 is added and cut off, and their columns."""
    (X,) = node.tensors(1)
    there = op.Cast(op.Cast(op.Add(X, 0.5), to=int(ir.DataType.INT32)), to=int(ir.DataType.BOOL))
    counts = op.ReduceSum(op.cast(there, ir.DataType.INT32), [1], keepdims=0)
    return [counts, op.cast(op.Gather(op.NonZero(there), 1), ir.DataType.INT32)]


not_differentiable(
    "Ids are whole numbers.", "Unique", "IndexHash", "MergeIdLists", "DenseVectorToIdList"
)
