"""Models as readable text: one node a line, bodies indented, types and small constants in place."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import FormatError
from whileback.graph.origin import ORIGIN
from whileback.graph.scopes import STANDARD_DOMAINS, is_standard, walk
from whileback.graph.shapes import describe
from whileback.graph.tape import tape_of
from whileback.graph.tensors import known_tensor

__all__ = [
    "attribute_text",
    "declared",
    "dump",
    "graphs_of",
    "node_lines",
    "node_text",
    "operator_text",
    "opset_texts",
    "tensor_text",
    "to_lines",
    "to_text",
    "value_text",
]

# Constants and attributes of at most so many elements are printed, longer ones are summarised.
_SHORT = 8
# The smallest and the largest element of more elements than this take too long to find.
_SEARCHED = 2**20


def declared(value: ir.Value) -> str:
    """Return the type as `describe` does, without names that inference made up for sizes."""
    return re.sub(r"\b_d\d+\b", "?", describe(value))


def to_text(model: ir.Model) -> str:
    """Return the model as text, the same for the same model.

    Small constants stand where they are read and have no line of their own. A gradient's node
    ends in `# from F`, the name of the forward node that it comes from; `F`'s line ends in `# F`.
    Below a loop stands what is kept of it for its gradient, and why.
    External data is not read.
    """
    return "\n".join(to_lines(model))


def to_lines(model: ir.Model, depth: int | None = None) -> Iterator[str]:
    """Yield the lines of the text; of bodies that are nested deeper, only how many nodes they have.

    Args:
        model: any model.
        depth: how many levels of bodies are shown, 0: the main graph alone; None: all.
    """
    graph = model.graph
    yield f"{graph.name or 'model'}: {', '.join(opset_texts(model))}, IR {model.ir_version}"
    yield from _section("inputs", map(value_text, graph.inputs))
    yield from _section("outputs", map(_typed, graph.outputs))
    yield from _section("initializers", _initializers(graph))
    named = _origins(graph)
    yield from _section("nodes", _nodes(graph, named, depth))
    for function in model.functions.values():
        operator = f"{function.domain}::{function.name}"
        title = f"function {operator}{_signature(function)}"
        yield from _section(title, _nodes(function, named, depth))


def opset_texts(model: ir.Model) -> list[str]:
    """Return the opsets of a model, such as `ai.onnx@21`."""
    return [
        f"{'ai.onnx' if domain in STANDARD_DOMAINS else domain}@{version}"
        for domain, version in model.opset_imports.items()
    ]


def value_text(value: ir.Value) -> str:
    """Return a value's name and type, and what it holds if that is constant."""
    if value.const_value is None:
        return _typed(value)
    return f"{_typed(value)} = {tensor_text(value.const_value)}"


def dump(model: ir.Model, step: str) -> None:
    """Write the model's text to `<graph>.<step>.txt` in the folder that WHILEBACK_DUMP names.

    Does nothing unless that environment variable is set.

    Raises:
        FormatError: the file cannot be written.
    """
    folder = os.environ.get("WHILEBACK_DUMP")
    if not folder:
        return
    name = re.sub(r"[^\w.-]", "_", model.graph.name or "model")
    path = Path(folder, f"{name}.{step}.txt")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{to_text(model)}\n", encoding="utf-8")
    except OSError as error:
        raise FormatError(
            f"WHILEBACK_DUMP='{folder}': '{path}' cannot be written: {error.strerror}; name a "
            "folder that can be written to, or unset the variable"
        ) from error


def node_text(node: ir.Node) -> str:
    """Return a node without types, bodies and comments: `y = Gather(x, 0, axis=1)`."""
    results = ", ".join(str(value.name) for value in node.outputs if value.name)
    return f"{results} = {operator_text(node)}({_arguments(node)})"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        if not place:
            yield title
        yield f"  {line}"


def _origins(graph: ir.Graph) -> set[str]:
    """Return the names of the nodes that others come from."""
    return {node.metadata_props[ORIGIN] for node in walk(graph) if ORIGIN in node.metadata_props}


def _typed(value: ir.Value) -> str:
    known = value.type is not None or value.shape is not None
    return f"{value.name} : {describe(value)}" if known else str(value.name)


def _initializers(graph: ir.Graph) -> Iterator[str]:
    for value in graph.initializers.values():
        if not value.is_graph_input() and not _is_inline(value):
            yield value_text(value)


def _nodes(
    graph: ir.Graph | ir.Function, named: Collection[str], depth: int | None = None
) -> Iterator[str]:
    for node in graph:
        if not (is_standard(node, "Constant") and node.outputs and _is_inline(node.outputs[0])):
            yield from node_lines(node, named, depth)


def node_lines(
    node: ir.Node, named: Collection[str] = (), depth: int | None = None
) -> Iterator[str]:
    """Yield the lines of a node: itself, what is kept of it, and its bodies.

    Args:
        node: any node.
        named: the names of the nodes that others come from, which are shown.
        depth: how many levels of bodies are shown, all if None.
    """
    results = ", ".join(_typed(value) for value in node.outputs if value.name)
    yield f"{results} = {operator_text(node)}({_arguments(node)}){_comment(node, named)}"
    if (tape := tape_of(node)) is not None:
        yield from (f"  # {line}" for line in tape.lines())
    inside = None if depth is None else depth - 1
    for attribute in node.attributes.values():
        for inner in graphs_of(attribute):
            title = f"  {attribute.name}{_signature(inner)}"
            if depth == 0:
                yield f"{title}  # {len(inner)} node{'s' if len(inner) != 1 else ''}"
                continue
            yield title
            for line in (*_initializers(inner), *_nodes(inner, named, inside)):
                yield f"    {line}"


def operator_text(node: ir.Node) -> str:
    """Return the operator of a node, with its domain if that is not ONNX's own."""
    return node.op_type if node.domain in STANDARD_DOMAINS else f"{node.domain}::{node.op_type}"


def _comment(node: ir.Node, named: Collection[str]) -> str:
    origin = node.metadata_props.get(ORIGIN)
    if origin is not None:
        return f"  # from {origin}"
    return f"  # {node.name}" if node.name in named else ""


def _signature(graph: ir.Graph | ir.Function) -> str:
    inputs = ", ".join(map(_typed, graph.inputs))
    return f"({inputs}) -> ({', '.join(map(_read, graph.outputs))})"


def _arguments(node: ir.Node) -> str:
    attributes = [
        f"{attribute.name}={attribute_text(attribute)}"
        for attribute in node.attributes.values()
        if not graphs_of(attribute)
    ]
    return ", ".join([*map(_read, node.inputs), *attributes])


def graphs_of(attribute: ir.Attr) -> list[ir.Graph]:
    """Return the bodies or branches that an attribute holds."""
    if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
        return [attribute.as_graph()]
    if attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
        return list(attribute.as_graphs())
    return []


def _read(value: ir.Value | None) -> str:
    """Return how a value is named where it is read: `-` if it is left out."""
    if value is None:
        return "-"
    if _is_inline(value):
        return _elements(known_tensor(value))
    return str(value.name)


def _is_inline(value: ir.Value) -> bool:
    """Tell whether the value is a constant so small that it is printed where it is read."""
    if value.is_graph_input() or value.is_graph_output():
        return False
    producer = value.producer()
    if producer is None and not value.is_initializer():
        return False
    if producer is not None and not is_standard(producer, "Constant"):
        return False
    tensor = known_tensor(value)
    if tensor is None or isinstance(tensor, ir.ExternalTensor):
        return False
    return tensor.size <= (1 if tensor.dtype.is_floating_point() else _SHORT)


def attribute_text(attribute: ir.Attr) -> str:
    """Return an attribute's value; of a long one its ends, or how many elements it has."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return tensor_text(attribute.as_tensor())
    if attribute.name == "to" and value in list(ir.DataType):
        return ir.DataType(value).name
    if isinstance(value, list | tuple) and len(value) > _SHORT:
        return f"[{', '.join(map(_scalar, value[:3]))}, … {len(value)} values]"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value)


def tensor_text(tensor: ir.TensorProtocol) -> str:
    """Return the elements, or how many there are and between which bounds they lie."""
    if isinstance(tensor, ir.ExternalTensor):
        return f"data in {os.fspath(tensor.location)!r}"
    if tensor.size <= _SHORT:
        return _elements(tensor)
    if tensor.size > _SEARCHED or tensor.dtype == ir.DataType.STRING:
        return f"{tensor.size} values"
    array = tensor.numpy()
    return f"{tensor.size} values, {_scalar(array.min())} … {_scalar(array.max())}"


def _elements(tensor: ir.TensorProtocol | None) -> str:
    assert tensor is not None
    return _nested(tensor.numpy())


def _nested(array: np.ndarray | np.generic | bytes) -> str:
    if not isinstance(array, np.ndarray):
        return _scalar(array)
    if array.ndim == 0:
        return _scalar(array[()])
    return f"[{', '.join(map(_nested, array))}]" if len(array) else "[]"


def _scalar(value: Any) -> str:
    """Return a number with six digits at most, so that float32 0.1 is 0.1."""
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "replace"))
    if isinstance(value, str | ir.Shape | int) or np.asarray(value).dtype.kind in "OSUTbiu":
        return repr(value.item() if isinstance(value, np.generic) else value)
    if np.asarray(value).dtype.kind in "fV":
        return repr(float(f"{float(value):.6g}"))
    return str(value)
