"""Emits the ONNX operators that a Caffe2 operator is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import GraphError, UnsupportedError
from whileback.gradient import rules as _registered  # noqa: F401
from whileback.gradient.backward import GradientBuilder, backward_apart
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.onnx_inference import shape_problem
from whileback.graph.origin import ORIGIN
from whileback.graph.schemas import problem
from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes, describe, rank

__all__ = ["LARGEST_SIZE", "MOST_AXES", "Emitter"]

# What runtimes can take.
LARGEST_SIZE = 2**63 - 1
MOST_AXES = 64


class Emitter(Builder):
    """A builder whose nodes are named after the blob that they are emitted for."""

    blob = ""

    def __init__(self, graph: ir.Graph, names: Names, shapes: Shapes) -> None:
        super().__init__(graph, names, shapes)
        self._opset = graph.opset_imports[""]
        # Where the size that a symbol stands for is found, INT64[1].
        self.sizes: dict[str, ir.Value] = {}

    def _prefix(self) -> str:
        return f"{self.blob}/" if self.blob else ""

    def append(self, node: ir.Node) -> None:
        """Add a node made elsewhere, as `Builder` does; mark it as one that may be cleaned away.

        Raises: GraphError if ONNX's definition of the operator does not allow it.
        """
        super().append(node)
        node.metadata_props.setdefault(ORIGIN, self.blob)
        wrong = problem(node, self._opset) or shape_problem(node, self._opset) or _too_large(node)
        if wrong is not None:
            raise GraphError(f"ONNX's {node.op_type}: {wrong}")

    def constant(self, data: Any, dtype: ir.DataType | None = None) -> ir.Value:
        """Return a constant, as `Builder` does.

        Raises:
            GraphError: a number as a STRING, or as a type that is too small for it.
            UnsupportedError: bytes that are no text.
        """
        if dtype == ir.DataType.STRING and not isinstance(data, str | bytes):
            raise GraphError(f"{data!r} is no string")
        array = np.asarray(data)
        if dtype is not None and not _fits(array, dtype):
            raise GraphError(f"{data!r} is no {dtype.name}")
        for each in array.flat if array.dtype.kind in "OS" else ():
            _require_text(each)
        return super().constant(array, dtype)

    def find_sizes(self) -> None:
        """Note where the sizes of the graph's inputs are found that symbols stand for."""
        for value in self.graph.inputs:
            for axis, dim in enumerate(value.shape or ()):
                if not isinstance(dim, int) and dim.value and dim.value not in self.sizes:
                    self.sizes[dim.value] = self.dim(value, axis)

    def number(self, number: int) -> ir.Value:
        """Return a constant INT64 scalar."""
        return self.constant(number, ir.DataType.INT64)

    def plus(self, value: ir.Value, number: int) -> ir.Value:
        """Return an INT64 scalar that is larger by a number, a constant if the value is one."""
        known = value.const_value
        if known is None:
            return self.Add(value, number)
        return self.number(int(known.numpy()) + number)

    def scalar(self, value: ir.Value) -> ir.Value:
        """Return the only element of a tensor; the run fails if there are more."""
        producer = value.producer()
        if rank(value) == 0:
            return value
        if producer is not None and producer.op_type == "Unsqueeze":
            inner = producer.inputs[0]
            if inner is not None and rank(inner) == 0:
                return inner
        return self.Reshape(value, self.constant(np.zeros(0, np.int64)))

    def shape(self, dims: Iterable[int | str | ir.SymbolicDim | None] | None) -> ir.Shape | None:
        """Return a shape; None stands for a size that equals no other one."""
        if dims is None:
            return None
        return ir.Shape([self.shapes.new_dim() if dim is None else dim for dim in dims])

    def fixed(self, dim: int | ir.SymbolicDim) -> int | str | None:
        """Return a dimension as a number or as an input's symbol, None if it is neither."""
        if isinstance(dim, int):
            return dim
        return dim.value if dim.value in self.sizes else None

    def placeholder(
        self, name: str, kind: ir.TypeProtocol | None, shape: ir.Shape | None
    ) -> ir.Value:
        """Return a value that will be an input or an output of a graph or a node."""
        return ir.Value(name=self.names.fresh(name), type=kind, shape=shape)

    def sequence(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return the value, declared as a sequence of tensors."""
        value.type, value.shape = ir.SequenceType(ir.TensorType(dtype)), None
        return value

    def blank(self, dtype: ir.DataType, dims: Sequence[int | str]) -> ir.Value:
        """Return a tensor of zeros, or of empty strings."""
        zero = self.constant("" if dtype == ir.DataType.STRING else 0, dtype)
        numbers = [dim for dim in dims if isinstance(dim, int)]
        if len(numbers) == len(dims):
            return self.Expand(zero, numbers) if numbers else zero
        sizes = [self.sizes[d] if isinstance(d, str) else self.value([d]) for d in dims]
        return self.Expand(zero, self.Concat(*sizes, axis=0))

    def stand_in(self, value: ir.Value) -> ir.Value:
        """Return zeros of the value's type and shape, for a graph that cannot read the value.

        Along an axis whose size only the run knows there are none.
        """
        assert value.dtype is not None
        if isinstance(value.type, ir.SequenceType):
            return self.sequence(self.SequenceEmpty(dtype=int(value.dtype)), value.dtype)
        dims = [0] if value.shape is None else [self.fixed(dim) for dim in value.shape]
        return self.blank(value.dtype, [dim or 0 for dim in dims])

    def release(self, *graphs: ir.Graph) -> None:
        """Let a graph go that will not be used: it reads nothing any more."""
        for node in (node for graph in graphs for node in walk(graph)):
            node.resize_inputs(0)

    def control(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        graphs: Mapping[str, ir.Graph],
        outputs: Sequence[ir.Value],
    ) -> None:
        """Add a loop or a branch of which all types and shapes are known."""
        attributes = [ir.AttrGraph(name, graph) for name, graph in graphs.items()]
        node = ir.Node("", op_type, inputs, attributes, outputs=outputs)
        node.name = self.names.fresh(self._prefix() + op_type)
        node.metadata_props[ORIGIN] = self.blob
        self.graph.append(node)

    def pullback(
        self,
        forward: Callable[..., ir.Value | Sequence[ir.Value | None]],
        inputs: Sequence[ir.Value],
        cotangents: Sequence[ir.Value | None],
    ) -> list[ir.Value]:
        """Return the gradients of the inputs of a function, by the rules of ONNX's operators.

        So a `ConvGradient` is read as what the gradient of a `Conv` is. What only the forward
        part needed goes when the model is cleaned.

        Args:
            forward: called as `forward(op, *inputs)`, emits operators and returns what the
                `cotangents` are of.
            inputs: float tensors.
            cotangents: of each result, None where none flows.

        Raises: GraphError if a cotangent is of another type or shape than what it is of, or if
            there are strings among the inputs.
        """
        if any(value.dtype == ir.DataType.STRING for value in inputs):
            raise GraphError("strings have no gradient")
        apart = self.inside("pullback")
        own = [apart.Identity(value) for value in inputs]
        results = forward(apart, *own)
        results = [results] if isinstance(results, ir.Value) else list(results)
        op = GradientBuilder(apart.graph, self.names, self.shapes, set())
        op.share_constants(self)
        pairs = zip(results, cotangents, strict=False)
        known = {y: dy for y, dy in pairs if y is not None and dy is not None}
        for result, cotangent in known.items():
            if result.dtype != cotangent.dtype or _different(result.shape, cotangent.shape):
                raise GraphError(
                    f"the gradient of {describe(result)} cannot be {describe(cotangent)}"
                )
        backward_apart(op, self, own, known)
        return [known[value] if value in known else self.zeros_like(value) for value in own]


def _too_large(node: ir.Node) -> str | None:
    """Return which result has a size, or more axes, than any tensor can have."""
    for value in node.outputs:
        if (rank(value) or 0) > MOST_AXES:
            return f"makes a tensor of {rank(value)} axes"
        if any(isinstance(dim, int) and dim > LARGEST_SIZE for dim in value.shape or ()):
            return f"makes a tensor {describe(value)}"
    return None


def _fits(array: np.ndarray, dtype: ir.DataType) -> bool:
    """Tell whether a type holds whole numbers, all of which are given."""
    if array.dtype.kind not in "iu" or not array.size or dtype.numpy().kind not in "iu":
        return True
    limits = np.iinfo(dtype.numpy())
    return bool(limits.min <= array.min() and array.max() <= limits.max)


def _require_text(data: str | bytes) -> None:
    try:
        data.encode() if isinstance(data, str) else data.decode()
    except UnicodeError:
        raise UnsupportedError(f"{data!r} is no UTF-8, and ONNX has no other strings") from None


def _different(a: ir.Shape | None, b: ir.Shape | None) -> bool:
    """Tell whether two shapes are surely different."""
    if a is None or b is None:
        return False
    known = (
        (m, n) for m, n in zip(a, b, strict=False) if isinstance(m, int) and isinstance(n, int)
    )
    return len(a) != len(b) or any(m != n for m, n in known)
