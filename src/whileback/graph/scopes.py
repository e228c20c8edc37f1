"""Which values a node reads, scopes included, and one view on every loop operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

__all__ = [
    "Carry",
    "LoopView",
    "ScanInput",
    "ScanOutput",
    "behind_identity",
    "branches",
    "captures",
    "definitions",
    "is_loop",
    "loop_view",
    "operands",
    "scan_axes",
    "stands_for",
    "subgraphs",
    "walk",
    "walk_graphs",
]

STANDARD_DOMAINS = ("", "ai.onnx")
# The metadata of an `Identity` that is no mere copy tell which operator it stands for.
STANDS_FOR = "whileback.operator"


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """Return the graphs held by the node's attributes, in the order of the attributes."""
    graphs: list[ir.Graph] = []
    if not node.attributes:  # as most nodes, each of which is asked again and again
        return graphs
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs.extend(attribute.as_graphs())
    return graphs


def bodies(node: ir.Node) -> dict[str, ir.Graph]:
    """Return the node's graphs by the attribute, and its place in it, that holds them."""
    found: dict[str, ir.Graph] = {}
    for attribute in node.attributes.values() if node.attributes else ():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            found[attribute.name] = attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs = attribute.as_graphs()
            found |= {f"{attribute.name}[{i}]": graph for i, graph in enumerate(graphs)}
    return found


def walk(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield every node of the graph and of its subgraphs, a node before the nodes inside it."""
    stack: list[Iterator[ir.Node]] = [iter(graph)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        stack.extend(iter(inner) for inner in reversed(subgraphs(node)))


def walk_graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield the graph, then every graph inside it, in the order of their nodes."""
    yield graph
    for node in walk(graph):
        yield from subgraphs(node)


def definitions(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that the graph itself defines: inputs, initializers, outputs of nodes."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def captures(graph: ir.Graph) -> list[ir.Value]:
    """Return the outer values that the graph reads, at any depth, in the order of their use."""
    inside = set(definitions(graph))
    found: dict[ir.Value, None] = {}
    for node in graph:
        for value in operands(node):
            if value is not None and value not in inside:
                found[value] = None
    for value in graph.outputs:
        if value not in inside:
            found[value] = None
    return list(found)


def operands(node: ir.Node) -> list[ir.Value | None]:
    """Return the node's inputs, then the outer values that its subgraphs capture (each once)."""
    inner: dict[ir.Value, None] = {}
    for graph in subgraphs(node):
        inner.update(dict.fromkeys(captures(graph)))
    return [*node.inputs, *inner]


def is_standard(node: ir.Node, *op_types: str) -> bool:
    """Tell whether the node is one of these operators of the default domain.

    An `Identity` that stands for another operator is none of them.
    """
    return node.op_type in op_types and node.domain in STANDARD_DOMAINS and stands_for(node) is None


def stands_for(node: ir.Node) -> str | None:
    """Return which operator an `Identity` stands for, if its metadata say so.

    Such an operator hands its input on, but no gradient, or another one: `StopGradient`,
    `NegateGradient`. Without the metadata the node is a copy, so that every runtime takes it.
    """
    return node.metadata_props.get(STANDS_FOR) if node.op_type == "Identity" else None


def behind_identity(value: ir.Value) -> ir.Value:
    """Return the value that an `Identity`, or several in a row, hands on within its graph."""
    node = value.producer()
    while node is not None and is_standard(node, "Identity") and node.inputs[0] is not None:
        source = node.inputs[0].producer()
        if source is not None and source.graph is not node.graph:
            break
        value, node = node.inputs[0], source
    return value


def is_loop(node: ir.Node) -> bool:
    """Tell whether the node is a `Loop` or a `Scan` of the default domain."""
    return is_standard(node, "Loop", "Scan")


def branches(node: ir.Node) -> tuple[ir.Graph, ir.Graph]:
    """Return the `then` and the `else` branch of an `If`."""
    attributes = node.attributes
    return attributes["then_branch"].as_graph(), attributes["else_branch"].as_graph()


@dataclass(frozen=True)
class Carry:
    """A carried value: what it starts as, its name in a trip, after the trip, after the loop."""

    initial: ir.Value
    input: ir.Value
    output: ir.Value
    result: ir.Value


@dataclass(frozen=True)
class ScanInput:
    """A stack that a `Scan` reads row by row along `axis`, from the end if `reverse`."""

    stack: ir.Value
    row: ir.Value
    axis: int
    reverse: bool

    @property
    def is_in_order(self) -> bool:
        """Tell whether trip t reads row t of axis 0."""
        return self.axis == 0 and not self.reverse


@dataclass(frozen=True)
class ScanOutput:
    """A stack that a loop writes row by row along `axis`, from the end if `reverse`."""

    row: ir.Value
    stack: ir.Value
    axis: int
    reverse: bool


@dataclass(frozen=True)
class LoopView:
    """A `Loop` or a `Scan` seen the same way; `trip` is the body's trip number (`Loop` only)."""

    node: ir.Node
    body: ir.Graph
    carries: tuple[Carry, ...]
    scan_inputs: tuple[ScanInput, ...]
    scan_outputs: tuple[ScanOutput, ...]
    trip: ir.Value | None
    limit: ir.Value | None
    start: ir.Value | None
    proceed: ir.Value | None


def loop_view(node: ir.Node) -> LoopView:
    """Return the view on a `Loop` or a `Scan` (version 9 and newer) of the default domain."""
    return _loop(node) if node.op_type == "Loop" else _scan(node)


def _loop(node: ir.Node) -> LoopView:
    body = node.attributes["body"].as_graph()
    inputs: list[ir.Value | None] = [*node.inputs, None, None][: max(2, len(node.inputs))]
    initials = [value for value in inputs[2:] if value is not None]
    count = len(initials)
    carries = zip(
        initials, body.inputs[2:], body.outputs[1 : 1 + count], node.outputs[:count], strict=True
    )
    stacks = zip(body.outputs[1 + count :], node.outputs[count:], strict=True)
    return LoopView(
        node=node,
        body=body,
        carries=tuple(Carry(*parts) for parts in carries),
        scan_inputs=(),
        scan_outputs=tuple(ScanOutput(row, stack, 0, False) for row, stack in stacks),
        trip=body.inputs[0],
        limit=inputs[0],
        start=inputs[1],
        proceed=body.outputs[0],
    )


def _scan(node: ir.Node) -> LoopView:
    body = node.attributes["body"].as_graph()
    stacks = node.attributes["num_scan_inputs"].as_int()
    inputs = [value for value in node.inputs if value is not None]
    count = len(inputs) - stacks
    carries = zip(
        inputs[:count],
        body.inputs[:count],
        body.outputs[:count],
        node.outputs[:count],
        strict=True,
    )
    outputs = len(node.outputs) - count
    reads = zip(inputs[count:], body.inputs[count:], *scan_axes(node, "input", stacks), strict=True)
    writes = zip(
        body.outputs[count:],
        node.outputs[count:],
        *scan_axes(node, "output", outputs),
        strict=True,
    )
    return LoopView(
        node=node,
        body=body,
        carries=tuple(Carry(*parts) for parts in carries),
        scan_inputs=tuple(ScanInput(*parts) for parts in reads),
        scan_outputs=tuple(ScanOutput(*parts) for parts in writes),
        trip=None,
        limit=None,
        start=None,
        proceed=None,
    )


def scan_axes(node: ir.Node, side: str, count: int) -> tuple[list[int], list[bool]]:
    """Return the axis and the direction of each scan input (`side="input"`) or output."""
    axes = node.attributes.get_ints(f"scan_{side}_axes", [0] * count) or [0] * count
    directions = node.attributes.get_ints(f"scan_{side}_directions", [0] * count) or [0] * count
    return list(axes), [bool(direction) for direction in directions]
