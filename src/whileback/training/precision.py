"""Mixed precision: products in 16 bits, parameters, sums, norms and losses in 32.

Source: Micikevicius et al., Mixed precision training, arXiv:1710.03740; which operators compute in
which type is as in PyTorch's autocast.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.moving import put_first, taken_out
from whileback.graph.schemas import accepts
from whileback.graph.scopes import is_standard, subgraphs
from whileback.graph.shapes import FLOATS, HALVES, rank

__all__ = ["Precision", "masters", "narrow", "precision_named"]

_TYPES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}
# These compute in 16 bits.
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul"})
# These do if all that they read was computed in 16 bits, but for parameters and numbers.
_FOLLOWING = frozenset(
    "Add Clip Concat Flatten Gather Gelu HardSigmoid HardSwish Identity LeakyRelu MaxPool Mul Neg "
    "PRelu Relu Reshape Sigmoid Slice Split Squeeze Sub Tanh Transpose Unsqueeze Where".split()
)


@dataclass(frozen=True)
class Precision:
    """In which type products are computed, and by how much the loss is scaled for that.

    Gradients in FLOAT16 below 6e-8 are 0. So the loss is multiplied by a scale, and the gradients
    divided by it; where one is infinite or no number, the step is left out, and the scale becomes
    smaller. BFLOAT16, with the range of FLOAT, needs no scale.

    Attributes:
        dtype: "float16" or "bfloat16".
        scale: at first.
        growth: the factor to the scale after `interval` steps in a row, above 1.
        backoff: the factor to the scale if a step is left out, between 0 and 1.
        interval: see there.
    """

    dtype: str = "float16"
    scale: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.dtype not in list(_TYPES):
            raise ArgumentError(
                f"precision={self.dtype!r} is unknown; give 'float16' or 'bfloat16'."
            )
        numbers = (self.scale, self.growth, self.backoff)
        known = all(isinstance(each, Real) for each in numbers) and isinstance(self.interval, int)
        if not (known and self._fits()):
            raise ArgumentError(
                f"{self!r} does not fit: the scale is above 0, growth above 1, backoff between 0 "
                "and 1, and the interval at least 1. Change that."
            )

    def _fits(self) -> bool:
        grows = 1 < self.growth < np.inf and 0 < self.backoff < 1
        return 0 < self.scale < np.inf and grows and self.interval >= 1

    @property
    def type(self) -> ir.DataType:
        """The type as ONNX has it."""
        return _TYPES[self.dtype]

    @property
    def scales(self) -> bool:
        """Whether the loss is scaled."""
        return self.dtype == "float16"


def precision_named(precision: str | Precision | None) -> Precision | None:
    """Return a precision for its name."""
    known = precision is None or isinstance(precision, Precision)
    return precision if known else Precision(precision)  # type: ignore[return-value, arg-type]


def narrow(op: Builder, dtype: ir.DataType, nodes: Container[ir.Node]) -> None:
    """Let nodes of a graph, or inside it, that multiply FLOAT do so in a type of 16 bits."""
    work = _Narrowing(op, dtype, nodes)
    work.graph(op.graph)
    put_first(op.graph, taken_out(work.start.graph))


class _Narrowing:
    """The values that there are in 16 bits, too."""

    def __init__(self, op: Builder, dtype: ir.DataType, nodes: Container[ir.Node]) -> None:
        self.op, self.dtype, self.nodes = op, dtype, nodes
        # What is cast before all else: initializers, also those that loops read.
        self.start = op.inside("start")
        self.narrow: dict[ir.Value, ir.Value] = {}
        self.opset = op.graph.opset_imports[""]

    def graph(self, graph: ir.Graph) -> None:
        for node in list(graph):
            for inner in subgraphs(node):
                self.graph(inner)
            if not self._is_wanted(node) or not accepts(node.op_type, self.opset, self.dtype):
                continue
            for index, value in enumerate(node.inputs):
                if value is not None and value.dtype == ir.DataType.FLOAT:
                    node.replace_input_with(index, self._narrowed(node, value))
            for value in list(node.outputs):
                if value.dtype == ir.DataType.FLOAT:
                    self._widen(node, value)

    def _is_wanted(self, node: ir.Node) -> bool:
        if node not in self.nodes:
            return False
        if is_standard(node, *_PRODUCTS):
            return True
        floats = [v for v in node.inputs if v is not None and v.dtype == ir.DataType.FLOAT]
        return (
            is_standard(node, *_FOLLOWING)
            and any(value in self.narrow for value in floats)
            and all(v in self.narrow or v.is_initializer() or rank(v) == 0 for v in floats)
        )

    def _narrowed(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """Return a value in 16 bits, for a node to read."""
        if value in self.narrow:
            return self.narrow[value]
        if value.is_initializer():
            self.narrow[value] = self.start.cast(value, self.dtype)
            return self.narrow[value]
        before = self.op.inside("before")
        before.origin, before.role = node, "narrow"
        result = before.cast(value, self.dtype)
        assert node.graph is not None
        node.graph.insert_before(node, taken_out(before.graph))
        return result

    def _widen(self, node: ir.Node, value: ir.Value) -> None:
        """Let a node return 16 bits; what reads its output reads a copy in FLOAT, of its name."""
        after = self.op.inside("after")
        after.origin, after.role = node, "widen"
        value.type = ir.TensorType(self.dtype)
        result = after.cast(value, ir.DataType.FLOAT)
        value.replace_all_uses_with(result, replace_graph_outputs=True)
        (cast,) = taken_out(after.graph)
        cast.replace_input_with(0, value)
        result.name, value.name = value.name, self.op.names.fresh(f"{value.name}_narrow")
        assert node.graph is not None
        node.graph.insert_after(node, cast)
        self.narrow[result] = value


def masters(op: Builder, parameters: Sequence[ir.Value]) -> list[ir.Value]:
    """Return parameters of which those of 16 bits are FLOAT, and the graph reads a copy of these.

    Small changes are lost in 16 bits.
    """
    start = op.inside("start")
    found = [_master(start, op.graph, w) if w.dtype in HALVES else w for w in parameters]
    put_first(op.graph, taken_out(start.graph))
    return found


def _master(op: Builder, graph: ir.Graph, w: ir.Value) -> ir.Value:
    tensor, dtype, name = w.const_value, w.dtype, str(w.name)
    assert tensor is not None and dtype is not None and dtype in FLOATS
    wide = ir.tensor(tensor.numpy().astype("f"), name=name)
    master = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), const_value=wide)
    master.shape = w.shape
    del graph.initializers[name]
    if w.is_graph_input():
        graph.inputs[graph.inputs.index(w)] = master
    graph.register_initializer(master)
    w.replace_all_uses_with(op.cast(master, dtype), replace_graph_outputs=True)
    return master
