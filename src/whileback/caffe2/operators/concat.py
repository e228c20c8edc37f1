"""Joining tensors along an axis, and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.shapes import axis_within, channel_axis
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import rank


def _join_axis(node: Operator, value: ir.Value, new: bool) -> int:
    """Return the axis, which is that of the channels if none is named; one is new at each piece."""
    axis = node.args.int("axis") if node.args.has("axis") else channel_axis(node)
    known = rank(value)
    return axis if known is None else axis_within(node, axis, known + new)


def _adds_axis(node: Operator) -> bool:
    return node.args.has("axis") and node.args.bool("add_axis", False)


@lowering("Concat", "DepthConcat")
def concat(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = X1, X2 … along an axis, a new one with `add_axis`; and their sizes along it."""
    pieces = node.tensors(len(node.inputs))
    new = _adds_axis(node)
    axis = _join_axis(node, pieces[0], new)
    if new:
        pieces = [op.Unsqueeze(piece, [axis]) for piece in pieces]
    _check_sizes(node, pieces, axis)
    sizes = op.Concat(*(op.dim(piece, axis) for piece in pieces), axis=0)
    return [op.Concat(*pieces, axis=axis), op.cast(sizes, ir.DataType.INT32)]


def _check_sizes(node: Operator, pieces: Sequence[ir.Value], axis: int) -> None:
    """Refuse pieces that are known to differ along another axis."""
    shapes = [piece.shape for piece in pieces if piece.shape is not None]
    for each, dims in enumerate(zip(*shapes, strict=False)):
        sizes = sorted({dim for dim in dims if isinstance(dim, int)})
        if len(sizes) > 1 and axis >= 0 and each != axis:
            raise NetDefError(
                f"{label(node.proto)} joins along axis {axis}, so its inputs must be alike along "
                f"axis {each}, but have the sizes {sizes}."
            )


@gradient_operator("Concat", "DepthConcat")
def concat_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX1, dX2 … = Split(dY, the sizes)."""
    if len(op.output) < 2:
        raise NetDefError(
            f"{label(op)} has no second output, the sizes, which its gradient needs. Add one."
        )
    names = [f"{X}_grad" for X in op.input]
    return grad.add_all("Split", [dys[0], op.output[1]], names, **_layout(op))


def _layout(op: OperatorDef) -> dict[str, Any]:
    """Return the arguments that say along which axis the pieces lie."""
    args = Arguments(op)
    named = {name: args.int(name) for name in ("axis", "add_axis") if args.has(name)}
    return named | ({"order": args.string("order")} if args.has("order") else {})


@lowering("Split", "DepthSplit")
def split(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y1, Y2 … = pieces of X along an axis, of the given sizes or of equal ones."""
    (X,) = node.tensors(1)
    axis = _join_axis(node, X, False)
    return _pieces(op, node, X, axis, _sizes(op, node, X, axis))


def _sizes(op: Emitter, node: Operator, X: ir.Value, axis: int) -> ir.Value | list[int] | None:
    """Return the sizes that the input or the argument says, None where they are equal."""
    given = node.optional(1)
    if given is not None:
        return op.cast(given, ir.DataType.INT64)
    count = len(node.outputs)
    whole = None if X.shape is None else X.shape[axis]
    if named := node.args.ints("split", []):
        if len(named) != count or (isinstance(whole, int) and sum(named) != whole):
            raise NetDefError(
                f"{label(node.proto)} has 'split' {named}, but {count} outputs for {whole} "
                f"elements along axis {axis}."
            )
        return named
    if isinstance(whole, int) and whole % count:
        raise NetDefError(
            f"{label(node.proto)} has {count} outputs, among which {whole} elements along axis "
            f"{axis} cannot be divided equally. Give their sizes as 'split'."
        )
    return None


def _pieces(
    op: Emitter, node: Operator, X: ir.Value, axis: int, sizes: ir.Value | list[int] | None
) -> list[ir.Value]:
    count = len(node.outputs)
    attributes = {"axis": axis, "num_outputs": count if sizes is None else None}
    pieces = op.emit("Split", [X, sizes], attributes, outputs=count)
    return [op.Squeeze(piece, [axis]) for piece in pieces] if _adds_axis(node) else list(pieces)


@lowering("SplitByLengths")
def split_by_lengths(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y1, Y2 … = pieces of X along an axis, each of the sum of as many of the lengths."""
    X, lengths = node.tensors(2)
    lengths = op.cast(lengths, ir.DataType.INT64)
    sizes = op.ReduceSum(op.Reshape(lengths, [len(node.outputs), -1]), [1], keepdims=0)
    return _pieces(op, node, X, _join_axis(node, X, False), sizes)


@gradient_operator("Split", "DepthSplit", "SplitByLengths")
def split_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str | None]) -> list[str | None]:
    """dX = Concat(dY1, dY2 …)."""
    X = op.input[0]
    pieces = [dY or grad.zeros_like(Y) for Y, dY in zip(op.output, dys, strict=True)]
    names = [f"{X}_grad", f"_{X}_grad_dims"]
    return [grad.add_all("Concat", pieces, names, **_layout(op))[0], *[None] * (len(op.input) - 1)]
