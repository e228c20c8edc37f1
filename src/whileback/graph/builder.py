"""Emitting nodes: `op.Mul(a, b)` adds a `Mul` to the graph and returns its output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import onnx_ir as ir

from whileback.graph.cleanup import discard
from whileback.graph.constants import known_ints
from whileback.graph.dims import reshape_target
from whileback.graph.names import Names
from whileback.graph.origin import ORIGIN, source
from whileback.graph.scopes import STANDS_FOR
from whileback.graph.shapes import (
    HALVES,
    Shapes,
    is_float,
    rank,
    same_dim,
    same_shape,
    static_shape,
)

__all__ = ["Builder", "Operand"]

Operand = ir.Value | int | float | bool | Sequence[int] | np.ndarray | None


class _Constants:
    """The constants of a graph and all inside it, each once."""

    def __init__(self, graph: ir.Graph, names: Names) -> None:
        self._graph = graph
        self._names = names
        self._known: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}

    def get(self, array: np.ndarray) -> ir.Value:
        data = array.tobytes() if array.dtype.kind != "O" else repr(array.tolist()).encode()
        key = (str(array.dtype), array.shape, data)
        if key not in self._known or not self._known[key].is_initializer():
            name = self._names.fresh("constant")
            tensor = _tensor(array, name)
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), const_value=tensor)
            value.shape = ir.Shape(array.shape)
            self._graph.register_initializer(value)
            self._known[key] = value
        return self._known[key]


def _tensor(array: np.ndarray, name: str) -> ir.TensorProtocol:
    """Return a tensor that holds the array; objects are byte strings."""
    if array.dtype.kind == "O":
        return ir.StringTensor(array, name=name)
    return ir.tensor(array, name=name)


class Builder:
    """Emits operators of the default domain at the end of one graph.

    Python numbers become constants: ints and lists of ints INT64, floats the type of the first
    float tensor among the inputs, arrays what they are. Every new value has its type and, where
    it can be inferred, its shape. New nodes are named after `origin`, the node they are emitted
    for.
    """

    def __init__(self, graph: ir.Graph, names: Names, shapes: Shapes) -> None:
        self.graph = graph
        self.names = names
        self.shapes = shapes
        self.origin: ir.Node | None = None
        # What the new nodes do for that node, as their names tell.
        self.role = "grad"
        # Whether this is inside the body of a `SequenceMap`.
        self.in_map = False
        self._constants = _Constants(graph, names)

    def inside(self, name: str) -> Self:
        """Return a builder for a new, empty graph that will become a body or a branch.

        Its constants are initializers of the outermost graph, where everything can read them.
        """
        builder = copy(self)
        builder.graph = ir.Graph([], [], nodes=[], name=self.names.fresh(name))
        return builder

    def within(self, graph: ir.Graph) -> Self:
        """Return a builder that emits at the end of a body or a branch that is there."""
        builder = copy(self)
        builder.graph = graph
        return builder

    def new_scalar(self, name: str, dtype: ir.DataType) -> ir.Value:
        """Return a new value of one element, to become an input of a body."""
        value = ir.Value(name=self.names.fresh(name), type=ir.TensorType(dtype))
        value.shape = ir.Shape([])
        return value

    def share_constants(self, other: Builder) -> None:
        """Take and leave constants where `other`, a builder for the same model, does."""
        self._constants = other._constants

    def __getattr__(self, op_type: str) -> Callable[..., ir.Value]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*inputs: Operand, **attributes: Any) -> ir.Value:
            return self.emit(op_type, inputs, attributes)[0]

        return emit

    def emit(
        self,
        op_type: str,
        inputs: Sequence[Operand],
        attributes: dict[str, Any] | None = None,
        outputs: int = 1,
        domain: str = "",
    ) -> Sequence[ir.Value]:
        """Add a node with any number of outputs and return them.

        A size whose value the inference of shapes tells is a constant instead. Inputs left out at
        the end are not listed: ONNX Runtime 1.32 dies of a `LayerNormalization` with an empty one.
        A `Loop` that carries nothing lists the condition that it lacks, as ONNX demands.
        """
        least = 2 if op_type == "Loop" else 0
        while len(inputs) > least and inputs[-1] is None:
            inputs = inputs[:-1]
        tensors = [value for value in inputs if isinstance(value, ir.Value)]
        like = next((value for value in (*filter(is_float, tensors), *tensors)), None)
        node = ir.node(
            op_type,
            [self.value(each, like) for each in inputs],
            {k: v for k, v in (attributes or {}).items() if v is not None},
            domain=domain,
            num_outputs=outputs,
        )
        self.append(node)
        known = node.outputs[0].const_value if outputs == 1 else None
        if known is not None:
            discard(self.graph, node)
            return (self.constant(known.numpy()),)
        return node.outputs

    def append(self, node: ir.Node) -> None:
        """Add a node made elsewhere: name it and its outputs, infer their types and shapes."""
        node.name = self.names.fresh(self._prefix() + node.op_type)
        for index, output in enumerate(node.outputs):
            output.name = node.name if index == 0 else self.names.fresh(f"{node.name}_{index}")
        if self.origin is not None and self.origin.name:
            node.metadata_props[ORIGIN] = source(self.origin)
        self.graph.append(node)
        self.shapes.infer(node)

    def _prefix(self) -> str:
        return "" if self.origin is None else f"{source(self.origin)}/{self.role}/"

    def value(self, operand: Operand, like: ir.Value | None = None) -> ir.Value | None:
        """Return a tensor for an operand of a node; numbers become constants."""
        if operand is None or isinstance(operand, ir.Value):
            return operand
        if isinstance(operand, float):
            return self.constant(operand, None if like is None else like.dtype)
        if isinstance(operand, np.ndarray):
            return self.constant(operand)
        if isinstance(operand, bool):
            return self.constant(np.array(operand))
        return self.constant(np.array(operand, np.int64))

    def constant(self, data: Any, dtype: ir.DataType | None = None) -> ir.Value:
        """Return an initializer of the outermost graph that holds the data; equal ones are one."""
        array = np.asarray(data)
        return self._constants.get(array if dtype is None else array.astype(dtype.numpy()))

    def shape_of(self, value: ir.Value) -> ir.Value:
        """Return the value's shape: a constant where it is known, else a `Shape` node."""
        known = static_shape(value)
        return self.Shape(value) if known is None else self.constant(np.array(known, np.int64))

    def dim(self, value: ir.Value, axis: int) -> ir.Value:
        """Return one dimension of the value, as INT64[1]."""
        if value.shape is not None and isinstance(value.shape[axis], int):
            return self.constant(np.array([value.shape[axis]], np.int64))
        end = None if axis == -1 else axis + 1
        return self.Shape(value, start=axis, end=end)

    def own(self, values: Iterable[ir.Value]) -> list[ir.Value]:
        """Return the values as a subgraph may return them: made by nodes of its own, none twice.

        An `Identity` stands for any other one: outer values are not allowed, and ONNX Runtime 1.32
        leaves outputs of a `Scan` or an `If` unwritten that are inputs, or there twice.
        """
        own: dict[ir.Value, None] = {}
        for value in values:
            producer = value.producer()
            fresh = producer is not None and producer.graph is self.graph and value not in own
            own[value if fresh else self._copy(value)] = None
        return list(own)

    def _copy(self, value: ir.Value) -> ir.Value:
        """Return an `Identity` of the value, of a constant too."""
        node = ir.node("Identity", [value])
        self.append(node)
        return node.outputs[0]

    def Expand(self, operand: Operand, shape: Operand) -> ir.Value:
        """Return a value broadcast to a shape, none of whose sizes may be below its own.

        ONNX Runtime 1.32 leaves out an `Expand` to no elements, and so keeps a size of 1.
        """
        value, target = self.value(operand), self.value(shape)
        if value is None or value.dtype is None or 0 not in (known_ints(target) or ()):
            return self.emit("Expand", [value, target])[0]
        dtype = ir.DataType.BOOL if is_float(value) else value.dtype
        nothing = self.ConstantOfShape(target, value=ir.tensor(np.zeros(1, dtype.numpy())))
        return self.Where(nothing, value, value) if is_float(value) else nothing

    def zeros_like(self, value: ir.Value, dtype: ir.DataType | None = None) -> ir.Value:
        """Return zeros of the value's shape, and of its type or another; no element is read."""
        dtype = dtype or value.dtype
        zero = self.constant(0, dtype)
        if static_shape(value) == ():
            return zero
        if dtype == ir.DataType.BFLOAT16:  # for which ONNX Runtime 1.32 has no Expand
            element = ir.tensor(np.zeros(1, dtype.numpy()))
            return self.ConstantOfShape(self.shape_of(value), value=element)
        return self.Expand(zero, self.shape_of(value))

    def either(
        self,
        condition: ir.Value,
        some: Callable[[Self], Sequence[ir.Value]],
        none: Callable[[Self], Sequence[ir.Value]],
    ) -> Sequence[ir.Value]:
        """Emit an `If` around two ways to as many values."""
        sides = [self.inside("some"), self.inside("none")]
        for side, emit in zip(sides, (some, none), strict=True):
            side.graph.outputs.extend(side.own(emit(side)))
        then, other = (side.graph for side in sides)
        attributes = {"then_branch": then, "else_branch": other}
        return self.emit("If", [condition], attributes, outputs=len(then.outputs))

    def standing_for(self, operator: str, value: ir.Value) -> ir.Value:
        """Return a copy of a value, marked as what an operator makes of it that ONNX lacks.

        Only the gradient tells them apart; see `stands_for`.
        """
        result = self.Identity(value)
        producer = result.producer()
        if producer is not None:  # a constant has none
            producer.metadata_props[STANDS_FOR] = operator
        return result

    def arange(self, length: ir.Value) -> ir.Value:
        """Return the numbers 0, 1 … length - 1 for a length INT64[1]."""
        return self.Range(0, self.Squeeze(length, [0]), 1)

    def cast(self, value: ir.Value, to: ir.Value | ir.DataType) -> ir.Value:
        """Return the value with its elements in a type, or in that of another value."""
        dtype = to if isinstance(to, ir.DataType) else to.dtype
        if dtype is None:
            return self.CastLike(value, to)
        return value if value.dtype == dtype else self.Cast(value, to=int(dtype))

    def widened(self, value: ir.Value) -> ir.Value:
        """Return the value in a type in which sums and squares neither overflow nor get lost."""
        return self.cast(value, ir.DataType.FLOAT) if value.dtype in HALVES else value

    def add(self, *terms: ir.Value | None) -> ir.Value | None:
        """Return the sum of the terms that are there, or None if there is none."""
        total: ir.Value | None = None
        for term in terms:
            if term is not None:
                total = term if total is None else self.Add(total, term)
        return total

    def expand(self, value: ir.Value, like: ir.Value) -> ir.Value:
        """Return the value broadcast to the shape of `like`."""
        return value if same_shape(value, like) else self.Expand(value, self.shape_of(like))

    def reshape(self, value: ir.Value, like: ir.Value) -> ir.Value:
        """Return the value's elements in the shape of `like`."""
        if same_shape(value, like):
            return value
        target = reshape_target(like.shape)
        shape = self.shape_of(like) if target is None else self.value(target)
        return self.Reshape(value, shape, allowzero=1)

    def unbroadcast(self, gradient: ir.Value, like: ir.Value) -> ir.Value:
        """Sum the gradient over the axes along which `like` was broadcast to its shape."""
        if same_shape(gradient, like):
            return gradient
        axes = _broadcast_axes(gradient, like)
        if axes is None:
            return self._unbroadcast_at_run_time(gradient, like)
        if not axes:
            return gradient
        squeeze = len(axes) == len(gradient.shape or ()) - (rank(like) or 0)
        summed = self.ReduceSum(gradient, axes, keepdims=0 if squeeze else 1)
        return summed if squeeze else self.reshape(summed, like)

    def _unbroadcast_at_run_time(self, gradient: ir.Value, like: ir.Value) -> ir.Value:
        """Find out at run time which axes were broadcast: those whose sizes differ."""
        target = self.Shape(like)
        missing = None
        if gradient.shape is not None and like.shape is not None:
            missing = len(gradient.shape) - len(like.shape)
        if missing:
            gradient = self.ReduceSum(gradient, list(range(missing)), keepdims=0)
        shape = self.Shape(gradient)
        padded = target if missing is not None else self._padded(target, shape)
        axes = self.Squeeze(self.NonZero(self.Not(self.Equal(padded, shape))), [0])
        summed = self.ReduceSum(gradient, axes, keepdims=1, noop_with_empty_axes=1)
        if missing is None:
            return self.Reshape(summed, target, allowzero=1)
        summed.shape = like.shape
        return summed

    def _padded(self, shape: ir.Value, longer: ir.Value) -> ir.Value:
        """Return the shape with as many ones in front as make it as long as the other."""
        missing = self.Sub(self.Shape(longer), self.Shape(shape))
        return self.Concat(self.Expand(1, missing), shape, axis=0)


def _broadcast_axes(gradient: ir.Value, like: ir.Value) -> list[int] | None:
    """Return the axes to sum over, or None where the shapes do not tell."""
    if gradient.shape is None or like.shape is None:
        return None
    missing = len(gradient.shape) - len(like.shape)
    axes = list(range(missing))
    for axis, dim in enumerate(like.shape, start=missing):
        if same_dim(dim, gradient.shape[axis]) or gradient.shape[axis] == 1:
            continue
        if dim == 1:
            axes.append(axis)
        elif not (isinstance(dim, int) and isinstance(gradient.shape[axis], ir.SymbolicDim)):
            return None
    return axes
