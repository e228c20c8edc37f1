"""Makes the document of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from whileback.graph.origin import ORIGIN, is_new, source
from whileback.graph.printing import (
    attribute_text,
    graphs_of,
    operator_text,
    opset_texts,
    tensor_text,
)
from whileback.graph.scopes import bodies, operands, subgraphs, walk
from whileback.graph.shapes import describe
from whileback.graph.tape import tape_of
from whileback.graph.tensors import constant_tensor
from whileback.page.document import Document, Graph, Lane, Node, Value
from whileback.page.inference import typed
from whileback.page.lanes import arrange, runs_upward

__all__ = ["Draft", "Reading", "read"]

AnyGraph = ir.Graph | ir.Function
# Longer texts of a model are cut: of an attribute, and of documentation.
_TEXT, _DOC = 300, 4000


@dataclass(frozen=True)
class Draft:
    """A graph whose nodes have no places yet."""

    title: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    members: list[int]
    doc: str


@dataclass(frozen=True)
class Reading:
    """What is read of a model, and the numbers of its parts."""

    model: ir.Model
    values: list[Value]
    nodes: list[Node]
    graphs: list[Draft]
    value_numbers: Mapping[ir.Value, int]
    node_numbers: Mapping[ir.Node, int]
    graph_numbers: Mapping[AnyGraph, int]

    def document(self, changes: Sequence[tuple[str, str]] = ()) -> Document:
        """Return what a page shows of the model; `changes` are those that are no node's."""
        main = self.graphs[0]
        return Document(
            name=main.title,
            facts=_facts(self.model),
            values=tuple(self.values),
            nodes=tuple(self.nodes),
            graphs=tuple(map(self._graph, self.graphs)),
            doc=_clipped(self.model.doc_string, _DOC) or main.doc,
            changes=tuple(changes),
        )

    def _graph(self, draft: Draft) -> Graph:
        late = [number for number in draft.members if self.nodes[number].lane == "gradient"]
        return Graph(
            title=draft.title,
            inputs=draft.inputs,
            outputs=draft.outputs,
            lanes=arrange(draft.members, self.nodes),
            upward=runs_upward(late, self.nodes),
            doc=draft.doc,
        )


def read(model: ir.Model) -> Reading:
    """Read what a page shows of a model.

    External data is not read, and of weights that are no small constants nothing but what they are
    like. Types that the model does not tell are inferred.
    """
    reading, copy = _Reader(model).read(), typed(model)
    # The parts of the copy have the numbers of the model's.
    return reading if copy is model else replace(reading, values=_Reader(copy).read().values)


class _Reader:
    """Numbers the graphs, nodes and values of a model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        main: list[AnyGraph] = [model.graph, *model.functions.values()]
        self._graphs: dict[AnyGraph, int] = {graph: place for place, graph in enumerate(main)}
        self._numbers: dict[ir.Node, int] = {}
        for graph in main:
            self._number(graph)
        self._names: dict[str | None, int] = {}
        for node, number in self._numbers.items():
            if not is_new(node):
                self._names.setdefault(node.name, number)
        self._inputs = {value.name for value in model.graph.inputs}
        self._functions = {
            key: place
            for place, key in enumerate(model.functions, 1)
            if not _calls_itself(model, key)
        }
        self._places: dict[ir.Value, int] = {}
        self._values: list[Value] = []
        # Values that are computed of gradients, or are such.
        self._late: set[ir.Value] = set()

    def _number(self, graph: AnyGraph) -> None:
        for node in _drawn(graph):
            self._numbers[node] = len(self._numbers)
            for inner in subgraphs(node):
                self._graphs[inner] = len(self._graphs)
                self._number(inner)

    def read(self) -> Reading:
        """Return what is read."""
        nodes = [self._node(node) for node in self._numbers]
        titles: dict[AnyGraph, str] = {self._model.graph: self._model.graph.name or "model"}
        for key, function in self._model.functions.items():
            titles[function] = "::".join(filter(None, key))
        for node in self._numbers:
            titles |= {inner: title for title, inner in bodies(node).items()}
        graphs = [self._graph(graph, titles[graph]) for graph in self._graphs]
        return Reading(
            self._model, self._values, nodes, graphs, self._places, self._numbers, self._graphs
        )

    def _graph(self, graph: AnyGraph, title: str) -> Draft:
        return Draft(
            title=title,
            inputs=tuple(map(self._value, graph.inputs)),
            outputs=tuple(map(self._value, graph.outputs)),
            members=[self._numbers[node] for node in _drawn(graph)],
            doc=_clipped(graph.doc_string, _DOC),
        )

    def _node(self, node: ir.Node) -> Node:
        called = self._functions.get(node.op_identifier())
        held = tuple(self._graphs[inner] for inner in subgraphs(node))
        origin = node.metadata_props.get(ORIGIN, "")
        return Node(
            name=node.name or "",
            operator=operator_text(node),
            inputs=tuple(None if v is None else self._value(v) for v in node.inputs),
            outputs=tuple(map(self._value, node.outputs)),
            lane=self._lane(node),
            attributes={
                attribute.name: _clipped(attribute_text(attribute), _TEXT)
                for attribute in node.attributes.values()
                if not graphs_of(attribute)
            },
            bodies=held if called is None else (called,),
            source=self._names.get(origin) if origin else None,
            origin=_clipped(origin, _TEXT),
            doc=_clipped(node.doc_string, _DOC),
            tape=tape_of(node),
        )

    def _lane(self, node: ir.Node) -> Lane:
        if is_new(node) and source(node) in self._names:
            self._late.update(node.outputs)
            return "gradient"
        # Optimizers note which parameter a node is for.
        is_update = is_new(node) and source(node) in self._inputs
        if not is_update and self._late.isdisjoint(filter(None, operands(node))):
            return "forward"
        self._late.update(node.outputs)
        return "update"

    def _value(self, value: ir.Value) -> int:
        """Return the number of a value."""
        if value not in self._places:
            self._places[value] = len(self._values)
            known = value.type is not None or value.shape is not None
            self._values.append(
                Value(value.name or "", describe(value) if known else "", _constant(value))
            )
        return self._places[value]


def _calls_itself(model: ir.Model, key: ir.OperatorIdentifier) -> bool:
    """Tell whether a function calls itself, which no runtime takes and no drawing can unfold."""
    seen: set[ir.OperatorIdentifier] = set()
    pending = [key]
    while pending:
        function = model.functions.get(pending.pop())
        called = {node.op_identifier() for node in walk(function.graph)} if function else set()
        if key in called:
            return True
        pending += called - seen
        seen |= called
    return False


def _drawn(graph: AnyGraph) -> Iterator[ir.Node]:
    """Yield the nodes but for constants, which are shown where they are read."""
    return (node for node in graph if constant_tensor(node, {}) is None)


def _constant(value: ir.Value) -> str:
    """Return what is known of the elements of a weight or constant."""
    producer = value.producer()
    if producer is not None:
        tensor = constant_tensor(producer, {})
    else:
        tensor = value.const_value if value.is_initializer() else None
    return "" if tensor is None else _clipped(tensor_text(tensor), _TEXT)


def _facts(model: ir.Model) -> dict[str, str]:
    """Return what is told of a model as a whole."""
    made = " ".join(filter(None, (model.producer_name, model.producer_version)))
    facts = {
        "opset": ", ".join(opset_texts(model)),
        "IR version": str(model.ir_version),
        "made by": made,
    }
    return {name: _clipped(text, _TEXT) for name, text in facts.items() if text}


def _clipped(text: str | None, length: int) -> str:
    text = text or ""
    return text if len(text) <= length else f"{text[: length - 1]}…"
