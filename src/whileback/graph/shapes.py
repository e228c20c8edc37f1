"""Types and shapes of values: the one place that knows how they are inferred.

Operators are inferred by onnx-shape-inference; loops are done here, since a carried value has
the shape of its initial value only if the body leaves that shape as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import onnx_ir as ir
from onnx_shape_inference import (
    SYM_DATA_KEY,
    OpUsageError,
    ShapeInferenceContext,
    ShapeInferenceError,
    registry,
)

from whileback.errors import GraphError
from whileback.graph.containers import (
    common_elements,
    complete_elements,
    is_sequence,
    start_map,
)
from whileback.graph.corrections import (
    defaults_hidden,
    fill_rank,
    forget_guesses,
    infer_rank,
    is_misjudged,
    sizes_limited,
)
from whileback.graph.dims import (
    contradict,
    dims_if_kept,
    fill_dims,
    kept_but_for,
    names_of,
    only_of,
    open_dim,
    prefer,
    rename_symbols,
    same_dim,
    same_dims,
    with_numbers,
    without_axis,
    without_symbols,
)
from whileback.graph.microsoft import MICROSOFT, infer_quantized
from whileback.graph.scopes import (
    STANDARD_DOMAINS,
    Carry,
    LoopView,
    branches,
    definitions,
    is_loop,
    is_standard,
    loop_view,
    subgraphs,
    walk,
    walk_graphs,
)
from whileback.graph.types import FLOATS, HALVES, NARROW, NARROW_FLOATS, complete_types

__all__ = [
    "ASSUMED",
    "FLOATS",
    "HALVES",
    "NARROW",
    "NARROW_FLOATS",
    "Shapes",
    "describe",
    "forget_symbolic_data",
    "is_float",
    "rank",
    "same_dim",
    "same_shape",
    "size",
    "static_shape",
]

# Marks an input of a loop's body whose shape was taken to be the same in every trip.
ASSUMED = "whileback.assumed"


def is_float(value: ir.Value) -> bool:
    """Tell whether the value is a tensor of a type that has gradients."""
    return value.dtype in FLOATS and type(value.type) is ir.TensorType


def rank(value: ir.Value) -> int | None:
    """Return the value's rank if it is known."""
    return None if value.shape is None else len(value.shape)


def static_shape(value: ir.Value) -> tuple[int, ...] | None:
    """Return the value's shape if every dimension is a known number."""
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(value.shape.numpy())


def size(value: ir.Value) -> int | None:
    """Return the number of the value's elements if it is known."""
    shape = static_shape(value)
    return None if shape is None else math.prod(shape)


def same_shape(a: ir.Value, b: ir.Value) -> bool:
    """Tell whether two values surely have the same shape."""
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return all(same_dim(m, n) for m, n in zip(a.shape, b.shape, strict=True))


def describe(value: ir.Value) -> str:
    """Return the value's type as text, such as `FLOAT[B,4]`, `INT64[]` or `FLOAT[?]`."""
    name = "?" if value.dtype is None else value.dtype.name
    if isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
        return str(value.type)
    if value.shape is None:
        return f"{name}[?]"
    dims = (str(d) if isinstance(d, int) else (d.value or "?") for d in value.shape)
    return f"{name}[{','.join(dims)}]"


def forget_symbolic_data(graph: ir.Graph) -> None:
    """Remove the notes that the inference of operators leaves on values."""
    for each in walk_graphs(graph):
        for value in definitions(each):
            value.metadata_props.pop(SYM_DATA_KEY, None)


class Shapes:
    """Infers types and shapes, of one new node or of a whole graph, for one set of opsets."""

    def __init__(self, opset_imports: dict[str, int]) -> None:
        registry.collect()
        self._context = _Context(opset_imports, policy="refine")
        self._interface: set[ir.Value] = set()
        # The symbols for sizes that were seen to change from trip to trip, of all loops.
        self._changing: set[str] = set()

    def reserve(self, graph: ir.Graph) -> None:
        """Keep new symbols apart from those that the graph already uses."""
        self._context.reserve_symbol_names(_symbols(graph))

    def new_dim(self) -> ir.SymbolicDim:
        """Return a dimension of which nothing is known, not even that it equals another one."""
        dim: ir.SymbolicDim = self._context.new_symbolic_dim()
        return dim

    def infer_graph(self, graph: ir.Graph) -> None:
        """Infer every value of the graph and of its subgraphs; declared shapes are refined.

        Raises: GraphError for an operator whose inputs have wrong types or counts.
        """
        self.reserve(graph)
        self._interface = set(graph.outputs)
        self._infer_nodes(graph)

    def _infer_nodes(self, graph: ir.Graph) -> None:
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.shape = ir.Shape(value.const_value.shape.numpy())
                value.dtype = value.const_value.dtype
        self._name_dims(graph.inputs)
        for node in graph:
            self.infer(node)

    def infer(self, node: ir.Node) -> None:
        """Infer the outputs of one node from its inputs, bodies included."""
        if is_loop(node):
            self._infer_loop(loop_view(node))
            return
        if is_standard(node, "SequenceMap"):
            self._start_map(node)
        for inner in subgraphs(node):
            self._infer_nodes(inner)
        if is_standard(node, "If"):
            self._infer_if(node)
        elif node.domain == MICROSOFT:  # of which the inference knows little, and some of it wrong
            infer_quantized(node, self.new_dim)
        elif is_misjudged(node):
            infer_rank(node, self.new_dim)
        else:
            self._infer_operator(node)
            complete_types(node, self._context.get_opset_version(node.domain))
            complete_elements(node, self.new_dim)

    def _infer_operator(self, node: ir.Node) -> None:
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        version = self._context.get_opset_version(domain)
        function = registry.get(domain, node.op_type, version=version)
        if function is None:
            return
        self._name_dims(node.inputs)
        declared = [value.shape for value in node.outputs]
        for value in node.outputs:
            if value not in self._interface:
                value.shape = without_symbols(value.shape)
        if self._apply(function, node):
            forget_guesses(node, open_dim, self._context.get_symbolic_value)
            fill_rank(node, open_dim)
            found = [with_numbers(value.shape) for value in node.outputs]
            declared = list(map(fill_dims, found, declared))
        for value, shape in zip(node.outputs, declared, strict=True):
            value.shape = shape
        self._name_dims(node.outputs)

    def _name_dims(self, values: Iterable[ir.Value | None]) -> None:
        for value in values:
            if value is not None and not is_sequence(value):
                self._context.name_anonymous_dims(value)

    def _apply(self, function: Callable[..., None], node: ir.Node) -> bool:
        """Apply one operator's inference; tell whether it could read the names of all sizes.

        It cannot always read those that it gives itself; then nothing is known of the outputs.
        """
        try:
            with defaults_hidden(node), sizes_limited(self._context):
                function(self._context, node)
        except (OpUsageError, ShapeInferenceError, IndexError) as error:
            wrong = "an input has too few axes" if isinstance(error, IndexError) else error
            raise GraphError(
                f"Node '{node.name}' ({node.op_type}) is not valid: {wrong}. "
                "Correct the model: its runtime would refuse it too."
            ) from error
        except ValueError:
            return False
        return True

    def _infer_if(self, node: ir.Node) -> None:
        then, other = branches(node)
        for result, a, b in zip(node.outputs, then.outputs, other.outputs, strict=True):
            result.type = result.type or a.type or b.type
            if is_sequence(result):
                result.shape = result.shape or common_elements([a.shape, b.shape])
            else:
                self._set_shape(result, self.common(a.shape, b.shape))

    def _start_map(self, node: ir.Node) -> None:
        names = start_map(node, self.new_dim)
        for value in _inner_values(node.attributes["body"].as_graph()):
            value.shape = rename_symbols(value.shape, names)

    def _infer_loop(self, view: LoopView) -> None:
        """Find shapes of the carried values that every trip keeps, then those of the outputs."""
        carried = [(carry.input, carry.input.shape) for carry in view.carries]
        declared = [(value, value.shape) for value in _inner_values(view.body)]
        names = self._start_loop(view)
        for value, shape in declared:
            value.shape = rename_symbols(shape, names)
        attempts = 2 + sum(len(carry.input.shape or ()) for carry in view.carries)
        relaxed: set[str] = set()
        for _ in range(attempts):
            self._infer_nodes(view.body)
            if not self._relax_carries(view, relaxed):
                break
            for value, shape in carried:
                names |= only_of(relaxed, names_of(shape, value.shape))
            for value, shape in declared:
                _reset(value, rename_symbols(shape, names))
        self._finish_loop(view, relaxed)

    def _start_loop(self, view: LoopView) -> dict[str, int | ir.SymbolicDim]:
        """Give the body's inputs the types and shapes that they have outside.

        Returns: what the sizes are that the body has names for.
        """
        for value, dtype, outside in (
            (view.trip, ir.DataType.INT64, view.limit),
            (view.proceed, ir.DataType.BOOL, view.start),
        ):
            if value is not None:
                value.type = value.type or ir.TensorType(dtype)
                value.shape = prefer(
                    ir.Shape([]) if outside is None else outside.shape, value.shape
                )
        # Trips may add other elements to a sequence.
        shapes = [None if is_sequence(c.initial) else c.initial.shape for c in view.carries]
        known = [(c.input, c.initial.type, s) for c, s in zip(view.carries, shapes, strict=True)]
        for scan in view.scan_inputs:
            known.append((scan.row, scan.stack.type, without_axis(scan.stack.shape, scan.axis)))
        outer: dict[str, int | ir.SymbolicDim] = {}
        for value, type_, shape in known:
            declared, value.type = value.shape, value.type or type_
            value.shape = prefer(shape, declared)
            outer = names_of(declared, value.shape) | outer
        return outer

    def _relax_carries(self, view: LoopView, relaxed: set[str]) -> bool:
        """Forget the dimensions that a trip changes; tell whether there were any.

        Their symbols are added to those that are `relaxed` already.
        """
        changed = False
        for carry in view.carries:
            before, after = carry.input.shape, carry.output.shape
            if before is None or kept_but_for(relaxed, before, after):
                continue
            assumed = dims_if_kept(before, after, self._is_unknown)
            if assumed is not None:
                carry.input.meta[ASSUMED] = True
                carry.output.shape = assumed
                changed |= not same_dims(before, assumed)
                carry.input.shape = assumed
                continue
            changed = True
            carry.input.shape = self.common(before, after)
            dims = carry.input.shape or ()
            relaxed.update(d.value for d in dims if not isinstance(d, int) and d.value)
            self._changing |= relaxed
        return changed

    def _is_unknown(self, symbol: str) -> bool:
        """Tell whether a symbol says no more than that a size is not known."""
        return self._context.is_generated_symbol(symbol) and symbol not in self._changing

    def _finish_loop(self, view: LoopView, relaxed: set[str]) -> None:
        length = self._length(view)
        for carry in view.carries:
            carry.result.type = carry.result.type or carry.output.type or carry.input.type
            self._set_shape(carry.result, self._result_shape(carry, relaxed))
        for scan in view.scan_outputs:
            scan.stack.type = scan.stack.type or scan.row.type
            if scan.row.shape is not None:
                dims = list(scan.row.shape)
                dims.insert(scan.axis % (len(dims) + 1), length)
                self._set_shape(scan.stack, ir.Shape(dims))

    def _result_shape(self, carry: Carry, relaxed: set[str]) -> ir.Shape | None:
        """After any number of trips, none included: a dimension that changes is a new symbol."""
        shape = carry.input.shape
        if shape is None:
            return None
        return ir.Shape(
            [
                self.new_dim() if not isinstance(dim, int) and dim.value in relaxed else dim
                for dim in shape
            ]
        )

    def _length(self, view: LoopView) -> int | ir.SymbolicDim:
        for scan in view.scan_inputs:
            if scan.stack.shape is not None:
                return list(scan.stack.shape)[scan.axis]
        return self.new_dim()

    def _set_shape(self, value: ir.Value, shape: ir.Shape | None) -> None:
        if shape is not None:
            self._context.set_shape(value, self._context.name_anonymous_dims_in_shape(shape))

    def common(self, a: ir.Shape | None, b: ir.Shape | None) -> ir.Shape | None:
        """Return what holds for both shapes, a new symbol for each dimension that differs."""
        if a is None or b is None or len(a) != len(b):
            return None
        pairs = zip(a, b, strict=True)
        return ir.Shape([m if same_dim(m, n) else self.new_dim() for m, n in pairs])


class _Context(ShapeInferenceContext):  # type: ignore[misc]  # the package has no types
    """Lets what is inferred count where the model declares something that contradicts it."""

    def set_shape(self, value: ir.Value, shape: ir.Shape) -> bool:
        if value.shape is not None and contradict(value.shape, shape):
            value.shape = None
        changed: bool = super().set_shape(value, shape)
        return changed


def _inner_values(graph: ir.Graph) -> Iterator[ir.Value]:
    for node in walk(graph):
        yield from node.outputs
        for inner in subgraphs(node):
            yield from inner.inputs


def _reset(value: ir.Value, shape: ir.Shape | None) -> None:
    """Undo what was inferred under an assumption that did not hold."""
    value.shape = shape
    value.metadata_props.pop(SYM_DATA_KEY, None)
    producer = value.producer()
    if producer is None or producer.op_type != "Constant":
        value.const_value = None


def _symbols(graph: ir.Graph) -> Iterable[str]:
    for each in walk_graphs(graph):
        for value in definitions(each):
            for dim in value.shape or ():
                if not isinstance(dim, int) and dim.value:
                    yield dim.value
