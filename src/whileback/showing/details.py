"""One node or value of a model, with all that touches it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.origin import ORIGIN
from whileback.graph.printing import graphs_of, node_lines, node_text, value_text
from whileback.graph.scopes import operands, walk
from whileback.showing.summary import label

__all__ = ["to_details"]

# Of the nodes that read a value, or belong to a gradient, so many are shown.
_SHOWN = 12


def to_details(model: ir.Model, name: str, depth: int | None = None) -> str:
    """Return the nodes and values of a name as text, and what reads them.

    Args:
        model: any model.
        name: of a node, or of a value: an output of a node stands for the node.
        depth: how many levels of a node's bodies are shown, all if None.

    Raises: ArgumentError if the model has none of that name.
    """
    functions = ((f.graph, f"function {f.domain}::{f.name}") for f in model.functions.values())
    known: dict[str, None] = {}
    found: list[str] = []
    for whole, root in ((model.graph, "the main graph"), *functions):
        for graph, where in _graphs(whole, root):
            for node in graph:
                names = (label(node), *(str(value.name) for value in node.outputs))
                known.update(dict.fromkeys(names))
                if name in names:
                    found.append("\n".join(_node(whole, node, where, depth)))
            for value in (*graph.inputs, *graph.initializers.values()):
                known[str(value.name)] = None
                if name == value.name and (value in graph.inputs or not value.is_graph_input()):
                    found.append("\n".join(_value(value, where)))
    if not found:
        raise ArgumentError(f"The model has no node or value {name!r}: {nearest(name, known)}")
    return "\n\n".join(dict.fromkeys(found))


def _graphs(graph: ir.Graph, where: str) -> Iterator[tuple[ir.Graph, str]]:
    """Yield the graph and all graphs inside it, with where they are."""
    yield graph, where
    for node in graph:
        for attribute in node.attributes.values():
            for inner in graphs_of(attribute):
                yield from _graphs(inner, f"{attribute.name} of {label(node)}")


def _node(whole: ir.Graph, node: ir.Node, where: str, depth: int | None) -> Iterator[str]:
    source = node.metadata_props.get(ORIGIN)
    stems = f", of the gradient of {source}" if source else ""
    yield f"{label(node)}: {node.op_type} in {where}{stems}"
    yield from (f"  {line}" for line in node_lines(node, depth=depth))
    yield from _text("doc string", (node.doc_string or "").splitlines())
    yield from _text("reads", (_read(value) for value in dict.fromkeys(operands(node)) if value))
    for value in node.outputs:
        yield from _uses(value)
    made = [node_text(each) for each in walk(whole) if _stems(each, node)]
    yield from _text("nodes of its gradient", made)


def _stems(node: ir.Node, source: ir.Node) -> bool:
    return bool(source.name) and node.metadata_props.get(ORIGIN) == source.name


def _value(value: ir.Value, where: str) -> Iterator[str]:
    kind = "an initializer" if value.const_value is not None else "an input"
    yield f"{value.name}: {kind} of {where}"
    yield f"  {value_text(value)}"
    yield from _uses(value)


def _uses(value: ir.Value) -> Iterator[str]:
    readers = list(dict.fromkeys(node_text(node) for node, _ in value.uses()))
    if value.is_graph_output():
        readers.append("an output of its graph")
    yield from _text(f"{value.name} is read by", readers or ["nothing"])


def _read(value: ir.Value) -> str:
    """Return a value with the node that makes it."""
    producer = value.producer()
    return value_text(value) if producer is None else next(node_lines(producer))


def _text(title: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    all_of_them = list(lines)
    if all_of_them:
        yield title
    yield from (f"  {line}" for line in all_of_them[:_SHOWN])
    if len(all_of_them) > _SHOWN:
        yield f"  … {len(all_of_them) - _SHOWN} more"
