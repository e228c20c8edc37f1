"""Normal form: what the code for gradients may rely on.

In normal form

* there are no calls of model-local functions,
* the default domain has one opset, 21 or the model's own if that is newer; the imports of
  other domains are the model's own, and those of functions that are used,
* constants, at any depth, are initializers of the main graph, so that every scope can read
  them. Those of subgraphs are called `node/branch/name`. Defaults of inputs stay,
* the names of values are unique across scopes, and so are those of nodes. Inputs, outputs and
  initializers of the main graph keep theirs,
* every output of a subgraph is a value of its own, made by a node of that subgraph; only
  bodies of `Loop` may return a carried input or the condition as it is, or a value twice,
* nodes come after what they read,
* symbols of dimensions are identifiers; `graph.dims.given_symbols` brings back the model's,
* every value has its type, and its shape where it can be inferred; operators have the form
  and the types that ONNX defines,
* there is no `CastLike` to a known type, but `Cast`, which does not depend on a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.graph.containers import forget_scalar_elements
from whileback.graph.dims import plain_symbols
from whileback.graph.expansion import expand_graph
from whileback.graph.flatten import flatten
from whileback.graph.lifting import lift_graph
from whileback.graph.lifts import LIFTS, TYPED_LIFTS
from whileback.graph.names import Names
from whileback.graph.outputs import separate_outputs
from whileback.graph.scopes import definitions, is_standard, walk, walk_graphs
from whileback.graph.shapes import Shapes
from whileback.graph.sorting import sort
from whileback.graph.tensors import rename_value
from whileback.graph.validate import check_inputs, check_names, check_operators
from whileback.graph.versions import IR_VERSION, OPSET, limit_versions, target_opset

__all__ = ["normalize"]


def normalize(
    model: ir.Model,
    *,
    opset: int | None = None,
    ir_version: int | None = None,
    needs_expansion: Callable[[ir.Node], bool] | None = None,
) -> ir.Model:
    """Return a copy of the model in normal form; the model handed in is not modified.

    The head of this file says what that is. Tensors are shared with the model, external data is
    not read.

    Args:
        model: a model of opset 7 and newer, and IR version 3 and newer.
        opset: the newest opset of the default domain to use.
        ir_version: the newest IR version to use; by default 10, or the model's own.
        needs_expansion: tells which operators are to be replaced by the functions that ONNX
            defines for them, at any depth; those that have none stay.

    Raises:
        GraphError: the model breaks a rule: a cycle, an unknown name, a name with two
            definitions, a wrong type, functions that call each other in a circle.
        UnsupportedError: something cannot be expressed in the target opset, or a cap not be kept.
    """
    check_names(model)
    check_inputs(model.graph)
    flat = flatten(model)
    imports = flat.opset_imports
    target = target_opset(imports.get("", OPSET), opset)
    imports[""] = target
    graph = flat.graph
    graph.opset_imports.update(imports)
    plain_symbols(graph)
    forget_scalar_elements(graph)
    _settle(graph, flat.constants, target)
    if needs_expansion is not None:
        while (constants := expand_graph(graph, target, needs_expansion)) is not None:
            _settle(graph, constants, target)
    check_operators(graph, target)
    result = _with_graph(model, graph)
    limit_versions(result, opset, ir_version)
    return result


def _with_graph(model: ir.Model, graph: ir.Graph) -> ir.Model:
    return ir.Model(
        graph,
        ir_version=max(model.ir_version or 0, IR_VERSION),
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        metadata_props=dict(model.metadata_props),
    )


def _settle(graph: ir.Graph, constants: Sequence[ir.Value], target: int) -> None:
    """Lift, name, sort and infer what is new in the graph."""
    check_operators(graph, assumed=target)
    early = lift_graph(graph, target, LIFTS)
    _complete(graph, [*constants, *early.constants])
    late = lift_graph(graph, target, TYPED_LIFTS)
    if late.changed:
        _complete(graph, late.constants)
    for node in walk(graph):
        node.version = None
        if is_standard(node, "CastLike"):
            _cast_plainly(node)


def _cast_plainly(node: ir.Node) -> None:
    """Let a `CastLike` to a known type be a `Cast`: in a loop, it may be the same in every trip."""
    like = node.inputs[1]
    if like is not None and like.dtype is not None:
        node.op_type = "Cast"
        node.attributes.add(ir.AttrInt64("to", int(like.dtype)))
        node.resize_inputs(1)


def _complete(graph: ir.Graph, constants: Sequence[ir.Value]) -> None:
    _name_values(graph, constants)
    for value in constants:
        graph.register_initializer(value)
    sort(graph)
    separate_outputs(graph)
    _name_nodes(graph)
    Shapes(graph.opset_imports).infer_graph(graph)


def _name_values(graph: ir.Graph, constants: Sequence[ir.Value]) -> None:
    """Make the names of values unique; those of the model's interface stay."""
    interface = {*graph.inputs, *graph.initializers.values(), *graph.outputs}
    names = Names([str(value.name) for value in interface])
    for each in walk_graphs(graph):
        for value in definitions(each):
            if value not in interface and (value.name or value.uses() or value.is_graph_output()):
                rename_value(value, names.fresh(value.name or _base(value)))
    for value in constants:
        rename_value(value, names.fresh(str(value.name)))


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
