"""Bounds for gradients, of their elements and of all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder

__all__ = ["Clipping"]


@dataclass(frozen=True)
class Clipping:
    """How gradients are cut; None for a bound that there is not.

    Attributes:
        norm: if all gradients together have a longer norm than this, they are scaled to it.
        limit: every element is cut to ± this, before that.

    Source: Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks,
    arXiv:1211.5063; as PyTorch has it.
    """

    norm: float | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        """Refuse a bound that is not above 0."""
        for name, bound in (("clip_norm", self.norm), ("clip_value", self.limit)):
            if bound is not None and bound <= 0:
                raise ArgumentError(f"{name}={bound!r} is not above 0. Give a number above 0.")

    def apply(self, op: Builder, slopes: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """Emit what becomes of gradients, each of a parameter."""
        op.role, op.origin = "clip", ir.node("Clip", [], name="gradients")
        cut = {value: self._cut(op, slope) for value, slope in slopes.items()}
        if self.norm is None:
            return cut
        squares = [op.ReduceSumSquare(g, keepdims=0) for g in cut.values()]
        total = op.Sqrt(op.Sum(*(op.cast(square, ir.DataType.FLOAT) for square in squares)))
        factor = op.Min(op.Div(self.norm, op.Add(total, 1e-6)), 1.0)
        return {value: op.Mul(slope, op.cast(factor, slope)) for value, slope in cut.items()}

    def _cut(self, op: Builder, slope: ir.Value) -> ir.Value:
        if self.limit is None:
            return slope
        bounds = (op.constant(each, slope.dtype) for each in (-self.limit, self.limit))
        return op.Clip(slope, *bounds)
