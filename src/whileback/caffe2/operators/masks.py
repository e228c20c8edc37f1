"""Masks: rows chosen by them, elements overwritten by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradient,
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.operators.rows import (
    Segments,
    in_places,
    put_rows_back,
    size_of,
    unmasked,
    wide,
)
from whileback.caffe2.operators.shapes import axis_within, known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import add_argument, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

# How a column's number compares with the row's where an element is kept.
TRIANGLES = {
    "upper": "LessOrEqual",
    "lower": "GreaterOrEqual",
    "upperdiag": "Less",
    "lowerdiag": "Greater",
}


@lowering("BooleanMask")
def boolean_mask(op: Emitter, node: Operator) -> list[ir.Value]:
    """The rows of X where the mask holds, and their numbers."""
    X, mask = node.tensors(2)
    return [op.Compress(X, mask, axis=0), op.Compress(op.arange(op.dim(mask, 0)), mask, axis=0)]


@gradient_operator("BooleanMask", "RemoveDataBlocks")
def boolean_mask_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX has the rows of dY where they came from, zeros elsewhere.

    `BooleanMaskGradient` is right only for rows that are single numbers.
    """
    return [put_rows_back(grad, op, dys[0]), None]


@lowering("BooleanMaskGradient")
def boolean_mask_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX from the mask and dY."""
    mask, dY = node.tensors(2)
    return unmasked(op, mask, dY)


@lowering("RemoveDataBlocks")
def remove_data_blocks(op: Emitter, node: Operator) -> ir.Value:
    """The rows of X but for those with given numbers."""
    X, indices = node.tensors(2)
    ones = op.Expand(1, op.dim(X, 0))
    kept = op.ScatterElements(ones, wide(op, indices), op.Expand(0, op.shape_of(indices)))
    return op.Compress(X, op.Cast(kept, to=int(ir.DataType.BOOL)), axis=0)


@lowering("BooleanMaskLengths")
def boolean_mask_lengths(op: Emitter, node: Operator) -> ir.Value:
    """How many rows of each segment the mask keeps."""
    lengths, mask = node.tensors(2)
    return op.cast(Segments.of_lengths(op, lengths).total(op, wide(op, mask)), lengths)


not_differentiable("lengths are whole numbers", "BooleanMaskLengths")


@lowering("BooleanUnmask")
def boolean_unmask(op: Emitter, node: Operator) -> ir.Value:
    """Y[i] is the next of the values that belong to the first mask that holds at i."""
    inputs = node.tensors(len(node.inputs))
    places: list[ir.Value] = []
    count = op.dim(inputs[0], 0)
    free = None
    for mask in inputs[::2]:
        own = mask if free is None else op.And(mask, free)
        places.append(op.Compress(op.arange(count), own, axis=0))
        free = op.Not(mask) if free is None else op.And(free, op.Not(mask))
    return in_places(op, count, places, inputs[1::2])


@gradient_operator("BooleanUnmask")
def boolean_unmask_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """A value's gradient is the element of dY where it was put."""
    found: list[Gradient] = []
    free = None
    for mask, values in zip(op.input[::2], op.input[1::2], strict=True):
        own = mask if free is None else grad.add("And", [mask, free], f"{mask}_own")
        found += [None, grad.add("BooleanMask", [dys[0], own], f"{values}_grad")]
        others = grad.add("Not", [mask], f"{mask}_not")
        free = others if free is None else grad.add("And", [free, others], f"{mask}_free")
    return found


def _kept(op: Emitter, node: Operator, row: ir.Value, column: ir.Value) -> ir.Value:
    """Return where a mode keeps the elements of a matrix, [rows, columns, 1].

    Raises: NetDefError for an unknown mode.
    """
    mode = node.args.string("mode")
    if mode in ("sequence", "window"):
        given = op.Slice(wide(op, node.tensors(2)[1]), [0], op.dim(row, 0))
        given = op.Unsqueeze(given, [1, 2])
        if mode == "sequence":
            return op.Less(column, given)
        return op.LessOrEqual(op.Abs(op.Sub(column, given)), node.args.int("radius", 10))
    if mode not in TRIANGLES:
        modes = ", ".join(repr(each) for each in ("sequence", "window", *TRIANGLES))
        raise NetDefError(f"{label(node.proto)} has mode '{mode}', not one of {modes}.")
    return op.emit(TRIANGLES[mode], [column, row])[0]


def _axis(node: Operator, name: str, rank: int, default: int) -> int:
    """Return an argument that names an axis, counted from the front, or the default."""
    return axis_within(node, node.args.int(name), rank) if node.args.has(name) else default


@lowering("SequenceMask")
def sequence_mask(op: Emitter, node: Operator) -> ir.Value:
    """Y is X where a mask over matrices holds, `fill_val` elsewhere; 0 if it is a gradient.

    The matrices' columns are the axes from `axis` on (up to `repeat_from_axis`); the rows are
    those before (behind `batch`).
    """
    (X,) = node.tensors(1)
    rank = known_rank(node, X)
    first, axis = _axis(node, "batch", rank, -1) + 1, _axis(node, "axis", rank, 1)
    end = _axis(node, "repeat_from_axis", rank, rank)
    sizes = [
        size_of(op, X, *part) for part in ((0, first), (first, axis), (axis, end), (end, rank))
    ]
    row = op.Unsqueeze(op.arange(sizes[1]), [1, 2])
    column = op.Unsqueeze(op.arange(sizes[2]), [1])
    fill = 0.0 if node.args.bool("grad", False) else node.args.float("fill_val", -math.inf)
    matrices = op.Reshape(X, op.Concat(*sizes, axis=0), allowzero=1)
    masked = op.Where(_kept(op, node, row, column), matrices, op.constant(fill, X.dtype))
    return op.reshape(masked, X)


@lowering("VariableLengthSequencePadding")
def variable_length_sequence_padding(op: Emitter, node: Operator) -> ir.Value:
    """X[i, s] where i is less than the length of sequence s, else 0; in place."""
    X, lengths = node.tensors(2)
    steps = op.Unsqueeze(op.arange(op.dim(X, 0)), [1])
    there = op.Less(steps, op.Slice(wide(op, lengths), [0], op.dim(X, 1)))
    return op.Where(op.Unsqueeze(there, [2]), X, op.constant(0, X.dtype))


@gradient_operator("VariableLengthSequencePadding")
def variable_length_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is dY with the same zeros."""
    dX = grad.add("Copy", [dys[0]], f"{op.input[0]}_grad")
    inputs = [dX, op.input[1]]
    grad.ops.append(OperatorDef(type=op.type, input=inputs, output=[dX], is_gradient_op=True))
    return [dX, None]


@gradient_operator("SequenceMask")
def sequence_mask_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[Gradient]:
    """dX is dY where the mask holds, 0 elsewhere."""
    X, *given = op.input
    found = grad.emit("SequenceMask", [dys[0], *given], of=[X], like=op)
    add_argument(grad.ops[-1], "grad", 1)
    return [*found, *[None for _ in given]]
