"""A copy of a model without function calls, whose constants are initializers of the main graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from whileback.errors import GraphError, UnsupportedError
from whileback.graph.names import label
from whileback.graph.scopes import definitions
from whileback.graph.tensors import FROM_NODE, constant_tensor, rename_value

__all__ = ["Flattened", "flatten", "instantiate"]

Attributes = Mapping[str, ir.Attr]


@dataclass
class Flattened:
    """A main graph, the constants that are to become its initializers, and its opsets."""

    graph: ir.Graph
    constants: list[ir.Value]
    opset_imports: dict[str, int]


def flatten(model: ir.Model) -> Flattened:
    """Return a copy of the model's graph, function calls replaced by what they call.

    Constants, and the initializers of subgraphs, are taken out of their graphs; those of subgraphs
    are called by their address, `node/branch/name`. Each node knows its opset (`node.version`),
    since functions may have another one than the model. Nodes may be in any order.

    Raises:
        GraphError: functions call each other in a circle, or are called with too many arguments.
        UnsupportedError: a graph is an argument of a function, or functions need two versions of
            one domain.
    """
    imports = {d: v for d, v in model.opset_imports.items() if d != "ai.onnx"}
    if "ai.onnx" in model.opset_imports:
        imports.setdefault("", model.opset_imports["ai.onnx"])
    copier = _Copier(model.functions, imports)
    graph = copier.graph(model.graph, _Scope(dict(imports)))
    return Flattened(graph, copier.constants, copier.opset_imports)


def instantiate(call: ir.Node, function: ir.Function) -> tuple[list[ir.Node], list[ir.Value]]:
    """Put the nodes of a function in the place of a node, which is removed from its graph.

    Returns: the nodes, and their constants, which belong to no graph yet.
    """
    copier = _Copier({}, {"": function.opset_imports[""]})
    scope = _Scope({}, values={value: value for value in call.inputs if value is not None})
    for value in call.outputs:
        scope.values[value] = _copy_value(value)
    nodes = copier.call(call, function, scope)
    graph = call.graph
    assert graph is not None
    graph.insert_before(call, nodes)
    for value in call.outputs:
        copy = scope.values[value]
        assert copy is not None
        value.replace_all_uses_with(copy, replace_graph_outputs=True)
    graph.remove(call, safe=True)
    return nodes, copier.constants


@dataclass
class _Scope:
    """The graph of the model, or one call of a function: what its values and attributes are."""

    opset_imports: Mapping[str, int]
    values: dict[ir.Value, ir.Value | None] = field(default_factory=dict)
    attributes: Attributes = field(default_factory=dict)
    path: tuple[str, ...] = ()
    prefix: str = ""
    calls: tuple[ir.OperatorIdentifier, ...] = ()
    graphs: tuple[ir.Graph, ...] = ()

    def name_of(self, node: ir.Node) -> str:
        """Return the name that a copy of the node gets: in a function, behind that of the call."""
        return f"{self.prefix}{node.name or node.op_type}"

    def inside(self, graph: ir.Graph, *path: str) -> _Scope:
        """Return the scope of a graph in this one."""
        return _Scope(
            self.opset_imports,
            self.values,
            self.attributes,
            (*self.path, *path),
            self.prefix,
            self.calls,
            (*self.graphs, graph),
        )


class _Copier:
    """Copies graphs; what it takes out of them, and the domains they need, are attributes."""

    def __init__(
        self,
        functions: Mapping[ir.OperatorIdentifier, ir.Function],
        opset_imports: dict[str, int],
    ) -> None:
        self.functions = functions
        self.opset_imports = opset_imports
        self.constants: list[ir.Value] = []
        self._taken_out: set[ir.Value | None] = set()
        self._by_name: dict[ir.Graph, dict[str | None, ir.Value]] = {}

    def graph(self, graph: ir.Graph, scope: _Scope, *path: str) -> ir.Graph:
        """Return a copy of the graph, which is found at `path` in the scope."""
        scope = scope.inside(graph, *path)
        for value in graph.inputs:
            scope.values[value] = _copy_value(value)
        for value in graph.initializers.values():
            if value not in scope.values:
                scope.values[value] = _copy_value(value)
                if path:
                    self._take_out(value, scope)
        self._declare(graph, scope)
        nodes = self._nodes(graph, scope)
        return ir.Graph(
            [self._read(value, scope) for value in graph.inputs],
            self._returned(graph, nodes, scope),
            nodes=nodes,
            initializers=[
                self._read(value, scope)
                for value in graph.initializers.values()
                if not path or value.is_graph_input()
            ],
            doc_string=graph.doc_string,
            name=graph.name,
            metadata_props=dict(graph.metadata_props),
        )

    def _take_out(self, value: ir.Value, scope: _Scope) -> None:
        """Make a value of a subgraph, whose content is known, one of the main graph."""
        constant = self._read(value, scope)
        rename_value(constant, "/".join((*scope.path, str(value.name))))
        self.constants.append(constant)
        self._taken_out.add(constant)

    def _declare(self, nodes: Iterable[ir.Node], scope: _Scope) -> None:
        """Make the values of all nodes, before the nodes that read them."""
        for node in nodes:
            for value in node.outputs:
                if value not in scope.values:
                    scope.values[value] = _copy_value(value)

    def _read(self, value: ir.Value, scope: _Scope) -> ir.Value:
        """Return what stands for a value; a new one that nothing makes for one out of scope."""
        copy = scope.values.get(value)
        if copy is None:
            copy = scope.values[value] = ir.Value(name=value.name)
        return copy

    def _returned(self, graph: ir.Graph, nodes: list[ir.Node], scope: _Scope) -> list[ir.Value]:
        """Return what a copy of the graph returns: copies of what lies outside of it."""
        own = {scope.values[value] for value in definitions(graph)} - self._taken_out
        returned = []
        for value in graph.outputs:
            copy = self._read(self._resolve(value, scope), scope)
            if copy not in own and copy.type is not None:
                output = _copy_value(copy)
                output.name, output.const_value = value.name, None
                nodes.append(_identity(copy, output, scope))
                copy = output
            returned.append(copy)
        return returned

    def _resolve(self, value: ir.Value, scope: _Scope) -> ir.Value:
        """Return the outer value that a graph returns by its name, which readers do not resolve."""
        if value in scope.values:
            return value
        for graph in reversed(scope.graphs):
            if graph not in self._by_name:
                self._by_name[graph] = {each.name: each for each in definitions(graph)}
            if value.name in self._by_name[graph]:
                return self._by_name[graph][value.name]
        return value

    def _nodes(self, nodes: Iterable[ir.Node], scope: _Scope) -> list[ir.Node]:
        copies: list[ir.Node] = []
        for node in nodes:
            tensor = constant_tensor(node, scope.attributes)
            if node.op_identifier() in self.functions:
                copies += self.call(node, self.functions[node.op_identifier()], scope)
            elif tensor is not None and not node.outputs[0].name:
                continue  # Nothing can read it.
            elif tensor is not None:
                self._constant(node.outputs[0], tensor, scope)
            else:
                copies.append(self._node(node, scope))
        return copies

    def _constant(self, value: ir.Value, tensor: ir.TensorProtocol, scope: _Scope) -> None:
        constant = self._read(value, scope)
        constant.type, constant.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        constant.const_value = tensor
        constant.meta[FROM_NODE] = True
        self._take_out(value, scope)

    def _node(self, node: ir.Node, scope: _Scope) -> ir.Node:
        self._import(node, scope)
        return ir.Node(
            node.domain,
            node.op_type,
            [self._argument(value, scope) for value in node.inputs],
            self._attributes(node, scope),
            overload=node.overload,
            outputs=[self._read(value, scope) for value in node.outputs],
            version=scope.opset_imports.get(node.domain, self.opset_imports.get(node.domain)),
            name=scope.name_of(node) if scope.prefix else node.name,
            doc_string=node.doc_string,
            metadata_props=dict(node.metadata_props),
        )

    def _import(self, node: ir.Node, scope: _Scope) -> None:
        """Import the node's domain; only the default one may be there in several versions."""
        version = scope.opset_imports.get(node.domain)
        if version is None:
            return
        known = self.opset_imports.setdefault(node.domain, version)
        if not node.domain:
            self.opset_imports[""] = max(known, version)
        elif known != version:
            raise UnsupportedError(
                f"Node {label(node)} ({node.domain}@{version}::{node.op_type}) is in a function, "
                f"and the model imports {node.domain}@{known}: both cannot be had in one graph. "
                "Export the model with one version of that domain."
            )

    def _argument(self, value: ir.Value | None, scope: _Scope) -> ir.Value | None:
        if value is None or (value in scope.values and scope.values[value] is None):
            return None
        return self._read(value, scope)

    def _attributes(self, node: ir.Node, scope: _Scope) -> list[ir.Attr]:
        attributes = []
        for attribute in node.attributes.values():
            given = _given(attribute, scope.attributes) if attribute.is_ref() else attribute
            if given is not None:
                attributes.append(self._attribute(given, node, scope))
        return attributes

    def _attribute(self, attribute: ir.Attr, node: ir.Node, scope: _Scope) -> ir.Attr:
        path = (scope.name_of(node), attribute.name)
        if attribute.type == ir.AttributeType.GRAPH:
            graph = self.graph(attribute.as_graph(), scope, *path)
            return ir.AttrGraph(attribute.name, graph)
        if attribute.type == ir.AttributeType.GRAPHS:
            graphs = [self.graph(each, scope, *path) for each in attribute.as_graphs()]
            return ir.AttrGraphs(attribute.name, graphs)
        return attribute

    def call(self, node: ir.Node, function: ir.Function, scope: _Scope) -> list[ir.Node]:
        """Return the nodes of a function, reading the arguments of a call, making its outputs."""
        identifier = node.op_identifier()
        _check_call(node, function, scope)
        inner = _Scope(
            function.opset_imports,
            attributes=_arguments(node, function, scope),
            path=scope.path,
            prefix=f"{scope.name_of(node)}/",
            calls=(*scope.calls, identifier),
        )
        for index, value in enumerate(function.inputs):
            given = node.inputs[index] if index < len(node.inputs) else None
            inner.values[value] = self._argument(given, scope)
        passed = []
        for value, output in zip(function.outputs, node.outputs, strict=False):
            if not output.name and not output.uses():
                continue
            if value in inner.values or value.producer() is None:
                passed.append((value, output))
            else:
                inner.values[value] = self._read(output, scope)
        self._declare(function, inner)
        copies = self._nodes(function, inner)
        for value, output in passed:
            copies.append(_identity(self._argument(value, inner), self._read(output, scope), inner))
        return copies


def _identity(value: ir.Value | None, output: ir.Value, scope: _Scope) -> ir.Node:
    version = scope.opset_imports.get("")
    return ir.Node("", "Identity", [value], outputs=[output], version=version, name="")


def _copy_value(value: ir.Value) -> ir.Value:
    copy = ir.Value(
        name=value.name,
        type=value.type,
        shape=None if value.shape is None else value.shape.copy(),
        doc_string=value.doc_string,
        const_value=value.const_value if value.is_initializer() else None,
        metadata_props=dict(value.metadata_props),
    )
    copy.meta.update(value.meta)
    return copy


def _given(reference: ir.Attr, attributes: Attributes) -> ir.Attr | None:
    """Return what the caller of a function gives for one of its attributes.

    Raises: UnsupportedError for a graph.
    """
    given = attributes.get(str(reference.ref_attr_name))
    if given is not None and given.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        raise UnsupportedError(
            f"A function takes a graph as its attribute '{given.name}', which is not done. Write "
            "the graph into the function."
        )
    return None if given is None else ir.Attr(reference.name, given.type, given.value)


def _arguments(node: ir.Node, function: ir.Function, scope: _Scope) -> Attributes:
    """Return the attributes of a call, defaults of the function for those that are not given."""
    found = {a.name: a for a in function.attributes.values() if a.value is not None}
    for attribute in node.attributes.values():
        given = _given(attribute, scope.attributes) if attribute.is_ref() else attribute
        if given is not None:
            found[attribute.name] = given
    return found


def _check_call(node: ir.Node, function: ir.Function, scope: _Scope) -> None:
    if node.op_identifier() in scope.calls:
        circle = [*scope.calls[scope.calls.index(node.op_identifier()) :], node.op_identifier()]
        names = " -> ".join(f"{domain}::{name}" for domain, name, _ in circle)
        raise GraphError(
            f"Functions call each other in a circle: {names}. A function must not call itself; "
            "write a Loop instead."
        )
    for kind, given, formal in (
        ("inputs", node.inputs, function.inputs),
        ("outputs", node.outputs, function.outputs),
    ):
        if len(given) > len(formal):
            raise GraphError(
                f"Node {label(node)} calls function {_signature(function)} with {len(given)} "
                f"{kind}, and the function has {len(formal)}. Correct the call."
            )


def _signature(function: ir.Function) -> str:
    return f"{function.domain}::{function.name}"
