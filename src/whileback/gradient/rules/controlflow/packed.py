"""Keeping the sequences that a loop carries: as tensors of one axis, which are kept as others are.

That reads every element in every trip. Where only shapes, lengths or single elements are needed,
these are kept instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.containers import mapped
from whileback.graph.scopes import LoopView

__all__ = ["Packed", "pack", "unpack"]


@dataclass(frozen=True)
class Packed:
    """A sequence, and tensors of one axis: its elements' numbers, their shapes, and their ranks.

    There is an element of size 0 before those of the sequence: nothing cannot be joined.
    """

    value: ir.Value
    parts: tuple[ir.Value, ir.Value, ir.Value]


def pack(op: Builder, view: LoopView, sequences: Sequence[ir.Value]) -> list[Packed]:
    """Let a loop's body compute what some of its sequences consist of."""
    body = op.within(view.body)
    body.origin = view.node
    return [Packed(value, _parts(body, value)) for value in sequences]


def _parts(op: Builder, S: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    dtype = ir.DataType.FLOAT if S.dtype is None else S.dtype
    none = op.constant(np.zeros(0), dtype)
    flat = mapped(op, [S], lambda inside, X: inside.Reshape(X, [-1]), "flat")
    shapes = mapped(op, [S], lambda inside, X: inside.Shape(X), "shapes")
    ranks = mapped(op, [S], lambda inside, X: inside.Shape(inside.Shape(X)), "ranks")
    return _joined(op, flat, none), _joined(op, shapes, [0]), _joined(op, ranks, [1])


def _joined(op: Builder, S: ir.Value, first: ir.Value | list[int]) -> ir.Value:
    return op.ConcatFromSequence(op.SequenceInsert(S, op.value(first), 0), axis=0)


def unpack(op: Builder, flat: ir.Value, shapes: ir.Value, ranks: ir.Value) -> ir.Value:
    """Return the sequence of which these are the parts."""
    each = op.SplitToSequence(shapes, ranks, axis=0)
    sizes = mapped(op, [each], lambda inside, s: inside.ReduceProd(s, [0], keepdims=1), "sizes")
    parts = op.SplitToSequence(flat, op.ConcatFromSequence(sizes, axis=0), axis=0)
    elements = mapped(
        op,
        [parts, each],
        lambda inside, X, shape: inside.Reshape(X, shape, allowzero=1),
        "elements",
    )
    return op.SequenceErase(elements, 0)
