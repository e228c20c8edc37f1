"""Normal form: what the gradient code may rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from whileback.graph.flatten import flatten
from whileback.graph.names import Names
from whileback.graph.scopes import definitions, is_standard, subgraphs, walk
from whileback.graph.shapes import Shapes
from whileback.graph.sorting import sort
from whileback.graph.tensors import rename_value
from whileback.graph.validate import check_names

__all__ = ["normalize"]


def normalize(
    model: ir.Model,
    *,
    opset: int | None = None,
    ir_version: int | None = None,
    needs_expansion: Callable[[ir.Node], bool] | None = None,
) -> ir.Model:
    """Return a copy of the model in normal form."""
    check_names(model)
    flat = flatten(model)
    graph = flat.graph
    _name_values(graph, flat.constants)
    for value in flat.constants:
        graph.register_initializer(value)
    sort(graph)
    _separate_outputs(graph)
    _name_nodes(graph)
    graph.opset_imports.update(flat.opset_imports)
    Shapes(graph.opset_imports).infer_graph(graph)
    return ir.Model(
        graph,
        ir_version=max(model.ir_version or 0, 10),
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        metadata_props=dict(model.metadata_props),
    )


def _graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    yield graph
    for node in walk(graph):
        yield from subgraphs(node)


def _name_values(graph: ir.Graph, constants: list[ir.Value]) -> None:
    """Make the names of values unique; those of the model's interface stay."""
    interface = {*graph.inputs, *graph.initializers.values(), *graph.outputs}
    names = Names([str(value.name) for value in interface])
    for each in _graphs(graph):
        for value in definitions(each):
            if value not in interface and (value.name or value.uses() or value.is_graph_output()):
                rename_value(value, names.fresh(value.name or _base(value)))
    for value in constants:
        rename_value(value, str(value.name) if value in interface else names.fresh(str(value.name)))


def _base(value: ir.Value) -> str:
    producer = value.producer()
    return "value" if producer is None else producer.name or producer.op_type


def _name_nodes(graph: ir.Graph) -> None:
    names = Names([])
    for node in walk(graph):
        if node.name:
            node.name = names.fresh(node.name)
    for node in walk(graph):
        node.name = node.name or names.fresh(node.op_type)


def _separate_outputs(graph: ir.Graph) -> None:
    """Give every output of a subgraph a value of its own, made in that subgraph."""
    names = Names.of(graph)
    for node in walk(graph):
        for inner in subgraphs(node):
            _separate(node, inner, names)


def _separate(node: ir.Node, graph: ir.Graph, names: Names) -> None:
    seen = set() if not is_standard(node, "Scan") else set(graph.inputs)
    own = set(definitions(graph))
    for index, value in enumerate(graph.outputs):
        if value in own and (value not in seen or is_standard(node, "Loop")):
            seen.add(value)
            continue
        copy = ir.node("Identity", [value])
        output = copy.outputs[0]
        output.name = names.fresh(str(value.name))
        output.type, output.shape = value.type, value.shape
        graph.append(copy)
        graph.outputs[index] = output
