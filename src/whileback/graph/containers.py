"""Sequences and optionals: what is known of their elements, and working on each of them.

The shape of a sequence (`value.shape`) is what its elements have in common. A dimension without a
name may differ from element to element; one with a name is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from whileback.graph.dims import prefer, same_dim, without_axis
from whileback.graph.scopes import definitions, is_standard, walk_graphs

if TYPE_CHECKING:
    from whileback.graph.builder import Builder

__all__ = [
    "common_elements",
    "complete_elements",
    "content",
    "element_of",
    "element_type",
    "forget_scalar_elements",
    "is_sequence",
    "mapped",
    "start_map",
    "without_names",
]

Dims = list[int | ir.SymbolicDim]


def content(type_: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    """Return the type of what is in an optional, or any other type itself."""
    return type_.elem_type if isinstance(type_, ir.OptionalType) else type_


def is_sequence(value: ir.Value) -> bool:
    """Tell whether the value is a sequence, or an optional one."""
    return isinstance(content(value.type), ir.SequenceType)


def mapped(
    op: Builder, sequences: Sequence[ir.Value], emit: Callable[..., ir.Value], name: str = "each"
) -> ir.Value:
    """Return the sequence of what `emit(op, *elements)` makes of those of some sequences.

    ONNX Runtime 1.32 cannot run a `SequenceMap` in the body of another: there it is a `Loop`.
    """
    if op.in_map:
        return _mapped_by_loop(op, sequences, emit, name)
    inside = op.inside(name)
    elements = [element_of(op, sequence) for sequence in sequences]
    inside.graph.inputs.extend(elements)
    inside.graph.outputs.extend(inside.own([emit(inside, *elements)]))
    return op.emit("SequenceMap", sequences, {"body": inside.graph})[0]


def _mapped_by_loop(
    op: Builder, sequences: Sequence[ir.Value], emit: Callable[..., ir.Value], name: str
) -> ir.Value:
    inside = op.inside(name)
    trip = op.new_scalar("trip", ir.DataType.INT64)
    proceed = op.new_scalar("proceed", ir.DataType.BOOL)
    made = emit(inside, *(inside.SequenceAt(sequence, trip) for sequence in sequences))
    so_far = ir.Value(name=op.names.fresh("so_far"))
    if made.type is not None:
        so_far.type = ir.SequenceType(made.type)
    inside.graph.inputs.extend([trip, proceed, so_far])
    inside.graph.outputs.extend([proceed, inside.SequenceInsert(so_far, made)])
    start = op.SequenceEmpty(dtype=made.dtype)
    return op.Loop(op.SequenceLength(sequences[0]), None, start, body=inside.graph)


def element_of(op: Builder, sequence: ir.Value) -> ir.Value:
    """Return a new value that stands for any element of a sequence, to be a body's input."""
    element = ir.Value(name=op.names.fresh(f"{sequence.name}/element"))
    element.type, element.shape = element_type(sequence), sequence.shape
    return element


def element_type(sequence: ir.Value) -> ir.TypeProtocol | None:
    """Return the type of the elements of a sequence, if it is known."""
    return sequence.type.elem_type if isinstance(sequence.type, ir.SequenceType) else None


def forget_scalar_elements(graph: ir.Graph) -> None:
    """Forget where a graph declares that the elements of sequences are scalars.

    Models of ONNX's own say so of tensors of any rank, and runtimes do not look.
    """
    for each in walk_graphs(graph):
        for value in definitions(each):
            if is_sequence(value) and _is_scalar(value.shape):
                value.shape = None
        for node in each:
            held = node.attributes.get("type") if is_standard(node, "Optional") else None
            if held is not None and _is_scalar(held.value.shape):
                type_ = held.value.type
                if isinstance(type_, ir.SequenceType):
                    node.attributes.add(ir.AttrTypeProto("type", ir.TypeAndShape(type_, None)))


def _is_scalar(shape: ir.Shape | None) -> bool:
    return shape is not None and not len(shape)


def start_map(
    node: ir.Node, new_dim: Callable[[], ir.SymbolicDim]
) -> dict[str, int | ir.SymbolicDim]:
    """Give the inputs of a map's body the types and shapes of elements, or of tensors.

    What the body calls the size of an element may be another one in each of them.

    Returns: what the sizes are that the body has names for.
    """
    names: dict[str, int | ir.SymbolicDim] = {}
    body = node.attributes["body"].as_graph()
    for outside, value in zip(node.inputs, body.inputs, strict=True):
        if outside is None:
            continue
        declared, value.type = value.shape, value.type or element_type(outside) or outside.type
        actual, known = outside.shape or declared, outside.shape is not None
        if actual is not None:
            dims = (
                dim if isinstance(dim, int) or (known and dim.value) else new_dim()
                for dim in actual
            )
            value.shape = prefer(ir.Shape(dims), declared)
        for inner, dim in zip(declared or (), value.shape or (), strict=False):
            names.setdefault("" if isinstance(inner, int) else inner.value or "", dim)
    names.pop("", None)
    return names


def common_elements(shapes: Iterable[ir.Shape | None]) -> ir.Shape | None:
    """Return what holds for all of several shapes; dimensions that differ have no name."""
    first, *others = shapes
    if first is None or any(each is None or len(each) != len(first) for each in others):
        return None
    dims = list(first)
    for other in others:
        pairs = zip(dims, other or (), strict=True)
        dims = [m if same_dim(m, n) else ir.SymbolicDim(None) for m, n in pairs]
    return ir.Shape(dims)


def complete_elements(node: ir.Node, new_dim: Callable[[], ir.SymbolicDim]) -> None:
    """Give the outputs of an operator on sequences the shapes that their elements have."""
    if not is_standard(node, *_ELEMENTS):
        return
    for output, shape in zip(node.outputs, _ELEMENTS[node.op_type](node), strict=False):
        if shape is None or output.shape is not None:
            continue
        if not is_sequence(output):
            shape = ir.Shape([new_dim() if _is_anonymous(dim) else dim for dim in shape])
        output.shape = shape


def _is_anonymous(dim: int | ir.SymbolicDim) -> bool:
    return not isinstance(dim, int) and dim.value is None


def _elements(value: ir.Value | None) -> ir.Shape | None:
    """Return the shape of the elements of a sequence.

    A model may give its inputs and outputs symbols that mean no more than that a size is not known.
    """
    if value is None or value.shape is None:
        return None
    declared = value.is_graph_input() or value.is_graph_output()
    return without_names(value.shape) if declared else value.shape


def without_names(shape: ir.Shape | None) -> ir.Shape | None:
    """Return a shape of elements whose sizes, where not known, may differ from each other."""
    if shape is None:
        return None
    return ir.Shape([dim if isinstance(dim, int) else None for dim in shape])


def _kept(node: ir.Node) -> list[ir.Shape | None]:
    return [_elements(node.inputs[0])]


def _of_inputs(node: ir.Node) -> list[ir.Shape | None]:
    return [common_elements(None if value is None else value.shape for value in node.inputs)]


def _inserted(node: ir.Node) -> list[ir.Shape | None]:
    sequence, tensor = node.inputs[:2]
    shape = None if tensor is None else tensor.shape
    producer = None if sequence is None else sequence.producer()
    if producer is not None and is_standard(producer, "SequenceEmpty"):
        return [shape]
    return [common_elements([_elements(sequence), shape])]


def _split(node: ir.Node) -> list[ir.Shape | None]:
    X, split = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    axis = node.attributes.get_int("axis", 0)
    apart = not node.attributes.get_int("keepdims", 1)
    if X is None or X.shape is None:
        return [None]
    if apart and split is None:
        return [without_axis(X.shape, axis)]
    is_list = split is not None and split.shape is not None and len(split.shape) == 1
    if apart and not is_list:
        return [None]  # ONNX Runtime 1.32 takes the axis away for a split of 1
    dims: Dims = list(X.shape)
    dims[axis] = ir.SymbolicDim(None) if split is not None else 1
    return [ir.Shape(dims)]


def _joined(node: ir.Node) -> list[ir.Shape | None]:
    shape = _elements(node.inputs[0])
    if shape is None:
        return [None]
    dims: Dims = list(shape)
    axis = node.attributes["axis"].as_int()
    if node.attributes.get_int("new_axis", 0):
        dims.insert(axis % (len(dims) + 1), ir.SymbolicDim(None))
    else:
        dims[axis] = ir.SymbolicDim(None)
    return [ir.Shape(dims)]


def _made_by_body(node: ir.Node) -> list[ir.Shape | None]:
    """Sizes that only the body knows may differ from element to element."""
    return [without_names(value.shape) for value in node.attributes["body"].as_graph().outputs]


_ELEMENTS: dict[str, Callable[[ir.Node], list[ir.Shape | None]]] = {
    "ConcatFromSequence": _joined,
    "SequenceAt": _kept,
    "SequenceConstruct": _of_inputs,
    "SequenceErase": _kept,
    "SequenceInsert": _inserted,
    "SequenceMap": _made_by_body,
    "SplitToSequence": _split,
}
