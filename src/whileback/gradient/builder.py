"""The builder that rules emit their operators with; it knows what cotangents look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import onnx_ir as ir

from whileback.gradient.activity import Values
from whileback.gradient.joining import joined
from whileback.gradient.masking import masked
from whileback.graph.builder import Builder, Operand
from whileback.graph.containers import is_sequence, mapped
from whileback.graph.names import Names
from whileback.graph.shapes import NARROW, Shapes

__all__ = ["GradientBuilder"]

# Operators that add up many elements.
_SUMS = frozenset(
    "CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceSum "
    "ReduceSumSquare".split()
)


Addition = Callable[["GradientBuilder", ir.Value], ir.Value]


class GradientBuilder(Builder):
    """A builder that knows which values of the forward model are active, and which masked."""

    def __init__(self, graph: ir.Graph, names: Names, shapes: Shapes, active: Values) -> None:
        super().__init__(graph, names, shapes)
        self.active = active
        self.in_loop = False
        self.masked = masked(graph)
        # Of a cotangent in it many elements are infinite if one is; see the rules' guards.
        self.mixed: set[ir.Value] = set()
        # Of what is drawn inside a node in a loop's body: the output of the node that tells it.
        self.drawn: dict[ir.Value, ir.Value] = {}
        # How well the equations of loops were solved that are differentiated at their solution.
        self.residuals: dict[str, ir.Value] = {}
        # How some cotangents of sequences are added to others other than element by element.
        self.additions: dict[ir.Value, Addition] = {}

    def emit(
        self,
        op_type: str,
        inputs: Sequence[Operand],
        attributes: dict[str, Any] | None = None,
        outputs: int = 1,
        domain: str = "",
    ) -> Sequence[ir.Value]:
        """Add a node as `Builder.emit` does, but add up numbers of 16 bits in FLOAT.

        A runtime may do so by itself or not: in FLOAT16 a sum of ones ends at 2048.
        """
        data = inputs[0] if op_type in _SUMS else None
        if not isinstance(data, ir.Value):
            return super().emit(op_type, inputs, attributes, outputs, domain)
        read = [self.widened(data), *inputs[1:]]
        (total,) = super().emit(op_type, read, attributes, outputs, domain)
        return (self.cast(total, data),)

    def inside(self, name: str) -> Self:
        """Return a builder for a new graph; how well equations are solved there, it notes apart."""
        builder = super().inside(name)
        builder.residuals = {}
        return builder

    def within(self, graph: ir.Graph) -> Self:
        """Return a builder for a body or a branch that is there; see `inside`."""
        builder = super().within(graph)
        builder.residuals = {}
        return builder

    def plus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Return the sum of two cotangents of one value; those of sequences are sequences."""
        if not is_sequence(a):
            return joined(self, a, b) or self.Add(a, b)
        whole, part = (a, b) if b in self.additions else (b, a)
        if part not in self.additions:
            return mapped(self, [a, b], lambda op, x, y: op.Add(x, y), "sum")
        total = self.additions[part](self, whole)
        if whole in self.additions:
            first, second = self.additions[whole], self.additions[part]
            self.additions[total] = lambda op, S: second(op, first(op, S))
        return total

    def zeros_like(self, value: ir.Value, dtype: ir.DataType | None = None) -> ir.Value:
        """Return zeros as the cotangent of a value: for a sequence, a sequence of zeros."""
        if is_sequence(value):
            return mapped(self, [value], lambda op, x: op.zeros_like(x), "zeros")
        narrow = dtype is None and value.dtype in NARROW
        return super().zeros_like(value, ir.DataType.FLOAT if narrow else dtype)

    def cotangent_type(self, value: ir.Value) -> ir.TypeProtocol | None:
        """Return the type of the value's cotangent.

        For whole numbers, to which something was rounded, that is FLOAT.
        """
        type_ = value.type
        if type_ is None or type_.dtype not in NARROW:
            return type_
        tensor = ir.TensorType(ir.DataType.FLOAT)
        return ir.SequenceType(tensor) if isinstance(type_, ir.SequenceType) else tensor
