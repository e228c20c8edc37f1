"""Gradients of operators that put tensors into sequences, and take them out."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Operand
from whileback.graph.constants import known_ints
from whileback.graph.containers import mapped
from whileback.graph.shapes import rank


@rule("SequenceConstruct", narrow=True)
def sequence_construct(op: GradientBuilder, node: ir.Node, dS: ir.Value) -> Sequence[ir.Value]:
    """S = (X₀, X₁, …), so dXᵢ is element i of dS."""
    return [op.SequenceAt(dS, index) for index in range(len(node.inputs))]


@rule("SequenceAt", narrow=True)
def sequence_at(op: GradientBuilder, node: ir.Node, dT: ir.Value) -> ir.Value:
    """T is an element of S, so dS is dT there and zeros elsewhere."""
    S, position = required(node), required(node, 1)
    dS = _with_element(op, op.zeros_like(S), position, dT)
    op.additions[dS] = lambda op, S: _with_element(
        op, S, position, op.Add(op.SequenceAt(S, position), dT)
    )
    return dS


@rule("SequenceInsert", narrow=True)
def sequence_insert(op: GradientBuilder, node: ir.Node, dR: ir.Value) -> tuple[ir.Value, ir.Value]:
    """R is S with T put in, so dT is the element of dR there, and dS the others."""
    position = _inserted_at(op, optional(node, 2))
    return op.SequenceErase(dR, position), op.SequenceAt(dR, position)


@rule("SequenceErase", narrow=True)
def sequence_erase(op: GradientBuilder, node: ir.Node, dR: ir.Value) -> ir.Value:
    """R is S without one element, so dS is dR with zeros put in there."""
    S, position = required(node), optional(node, 1)
    zeros = op.zeros_like(op.SequenceAt(S, -1 if position is None else position))
    return op.SequenceInsert(dR, zeros, _put_back_at(op, S, position))


@rule("ConcatFromSequence", narrow=True)
def concat_from_sequence(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the elements of S one behind another, so dS is dY taken apart."""
    S, axis = required(node), node.attributes["axis"].as_int()
    new_axis = node.attributes.get_int("new_axis", 0)
    sizes = None if new_axis else _sizes(op, S, axis)

    def apart(op: GradientBuilder, dY: ir.Value) -> ir.Value:
        return op.SplitToSequence(dY, sizes, axis=axis, keepdims=None if sizes else 0)

    def add(op: GradientBuilder, S: ir.Value) -> ir.Value:
        return apart(op, op.Add(op.ConcatFromSequence(S, axis=axis, new_axis=new_axis), dY))

    dS = apart(op, dY)
    op.additions[dS] = add
    return dS


def _sizes(op: GradientBuilder, S: ir.Value, axis: int) -> ir.Value:
    """Return the sizes of the elements of a sequence along an axis: a list, or one for all."""
    size = None if S.shape is None else S.shape[axis]
    if isinstance(size, int) and size:
        return op.constant(size, ir.DataType.INT64)
    sizes = mapped(op, [S], lambda inside, X: _size(inside, X, axis), "sizes")
    return op.ConcatFromSequence(sizes, axis=0)


@rule("SplitToSequence", narrow=True)
def split_to_sequence(op: GradientBuilder, node: ir.Node, dS: ir.Value) -> ir.Value:
    """S is X in parts, so dX is dS one behind another.

    A sequence of no parts cannot be joined: there may be none where X may have a size of 0.
    """
    X, split, axis = required(node), optional(node, 1), node.attributes.get_int("axis", 0)
    apart = not node.attributes.get_int("keepdims", 1)
    if split is not None:
        parts = _with_axis(op, dS, X, axis) if apart and rank(split) != 1 else dS
        return op.ConcatFromSequence(parts, axis=axis)
    size = None if X.shape is None else X.shape[axis]
    if isinstance(size, int) and size:
        return op.ConcatFromSequence(dS, axis=axis, new_axis=int(apart))
    none = op.Slice(op.zeros_like(X), [0], [0], [axis])
    if not apart:
        return op.ConcatFromSequence(op.SequenceInsert(dS, none, 0), axis=axis)
    row = op.ReduceSum(none, [axis], keepdims=0)
    joined = op.ConcatFromSequence(op.SequenceInsert(dS, row, 0), axis=axis, new_axis=1)
    return op.Slice(joined, [1], [2**63 - 1], [axis])


def _with_axis(op: GradientBuilder, dS: ir.Value, X: ir.Value, axis: int) -> ir.Value:
    """Return the parts with their axis, which ONNX Runtime 1.32 takes away if `split` is 1."""
    shape = op.ScatterElements(op.Shape(X), [axis], [-1])
    return mapped(op, [dS], lambda inside, part: inside.Reshape(part, shape), "parts")


def _size(op: GradientBuilder, X: ir.Value, axis: int) -> ir.Value:
    return op.Shape(X, start=axis, end=None if axis == -1 else axis + 1)


def _inserted_at(op: GradientBuilder, position: ir.Value | None) -> Operand:
    """Return where an element is that was put in: -1 means before the last one that was there."""
    if position is None:
        return -1
    known = known_ints(position)
    if known is not None:
        return known[0] if known[0] >= 0 else known[0] - 1
    where = op.cast(position, ir.DataType.INT64)
    return op.Where(op.Less(where, 0), op.Sub(where, 1), where)


def _with_element(
    op: GradientBuilder, S: ir.Value, position: ir.Value, element: ir.Value
) -> ir.Value:
    """Return a sequence with another element in one place."""
    rest = op.SequenceErase(S, position)
    return op.SequenceInsert(rest, element, _put_back_at(op, S, position))


def _put_back_at(op: GradientBuilder, S: ir.Value, position: ir.Value | None) -> Operand:
    """Return where to put an element so that it comes to stand where one of S was; None: last."""
    if position is None:
        return None
    known = known_ints(position)
    if known is not None:
        return known[0] if known[0] >= 0 else None if known[0] == -1 else known[0] + 1
    where = op.cast(position, ir.DataType.INT64)
    return op.Where(op.Less(where, 0), op.Add(where, op.SequenceLength(S)), where)
